"""Channels that open and close by image: a small layer looks at what comes in and
decides which of a layer's channels are computed.

The decision is hard, 0 or 1, in training too; backwards it passes the gradient of
σ(score) on (straight through, Bengio, Léonard & Courville 2013, "Estimating or
Propagating Gradients Through Stochastic Neurons for Conditional Computation").

Source: Gao et al. 2019, "Dynamic Channel Pruning: Feature Boosting and Suppression".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.wrapped import hold_hooks


class ChannelGate(nn.Module):
    """Which of the next layer's M channels are open, image by image: score(mean of each of the
    C maps) > 0, with ``score`` a linear layer. It begins with all channels open (bias 1).
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.score = nn.Linear(channels_in, channels_out)
        nn.init.constant_(self.score.bias, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, M), 1 open and 0 closed; a score of exactly 0 is closed."""
        soft = self.score(x.mean((2, 3))).sigmoid()  # (B, M)
        hard = (soft > 0.5).to(soft.dtype)
        return hard + (soft - soft.detach())  # exactly hard forwards


def gated_macs(gates: Sequence[Tensor], dense: Sequence[float]) -> Tensor:
    """Multiply-accumulates of each image, (B,), differentiable: Σ_l dense[l] · open share of
    layer l · open share of layer l − 1 (1 before the first). The mean over a batch of these is
    not the product of mean shares.

    Args:
        gates: (B, M_l) for each gated layer, in order. dense: as many numbers, the layers'
            MACs with everything open.
    """
    if not 0 < len(gates) == len(dense):
        raise ValueError(f"gates are one for each of {len(dense)} layers' MACs; got {len(gates)}")
    total, before = torch.zeros_like(gates[0][:, 0]), torch.ones_like(gates[0][:, 0])
    for gate, macs in zip(gates, dense, strict=True):
        share = gate.mean(1)
        total, before = total + macs * share * before, share
    return total


def target_penalty(macs: Tensor, dense: float, target: float) -> Tensor:
    """(mean MACs / dense / target − 1)²: pulls the mean of a batch to the share
    ``target`` from both sides.
    """
    return (macs.mean() / dense / target - 1).square()


@contextmanager
def gating(model: nn.Module, gates: Mapping[str, ChannelGate]) -> Iterator[list[Tensor]]:
    """Inside the block the outputs of modules are multiplied by their gates.

    Args:
        gates: by the names of two modules of the model, "conv2->bn2": the layer whose input the
            gate looks at, and the one whose output it multiplies. A batch norm with ReLU behind
            it is the place: relu(g·z) = g·relu(z).

    Yields:
        The gates' decisions of the latest forward pass, (B, M) in the order of ``gates``.
    """
    modules = dict(model.named_modules())
    latest = [torch.empty(0) for _ in gates]

    def look(i: int, gate: ChannelGate, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        latest[i] = gate(inputs[0])

    def multiply(i: int, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        return output * latest[i][:, :, None, None]

    with hold_hooks() as hooks:
        for i, (key, gate) in enumerate(gates.items()):
            first, _, second = key.partition("->")
            check_names([first, second], modules.keys() - {""}, "gates (keys are 'conv2->bn2')")
            looking = modules[first].register_forward_pre_hook(partial(look, i, gate))
            hooks.callback(looking.remove)
            hooks.callback(modules[second].register_forward_hook(partial(multiply, i)).remove)
        yield latest
