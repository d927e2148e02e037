"""Single neurons of the feed-forward parts: what the loss says of each, and narrower
parts without some.

Source: a gate on every neuron as Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", put on heads (section 4.1).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from course_lib.models.conv1d import cut, sizes
from course_lib.models.mlps import MLP, find_mlps, padded
from course_lib.modes import evaluating
from course_lib.pruning.heads.importance import by_sample, refuse_empty
from course_lib.wrapped import hold_hooks, refuse_wrapped

Batch = TypeVar("Batch")


def ffn_importance(
    model: nn.Module, batches: Iterable[Batch], loss_fn: Callable[[nn.Module, Batch], Tensor]
) -> list[Tensor]:
    """E_x |∂L(x)/∂gate| of every feed-forward neuron, at gates of 1, from one backward
    pass a batch.

    Args:
        model: in evaluation mode meanwhile; modes and ``.grad`` are as before
            afterwards.
        loss_fn: ``loss_fn(model, batch)`` returns one loss for each sample, (B,).

    Returns:
        (width,) float64 for each feed-forward part. Independent of the batch size.

    Raises:
        ValueError: without batches, or if the losses are not one for each sample.
    """
    mlps = _with_neurons(model)
    outputs = [model.get_submodule(mlp.out) for mlp in mlps]
    found: list[Tensor] | None = None
    samples = 0
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        for batch in batches:
            refuse_empty(batch)
            gates = [_NeuronGate() for _ in outputs]
            with hold_hooks() as hooks:
                hooks.enter_context(padded(model))
                for out, gate in zip(outputs, gates, strict=True):
                    hooks.callback(out.register_forward_pre_hook(gate).remove)
                losses = loss_fn(model, batch)
            flat = [
                mlp.flat for mlp, gate in zip(mlps, gates, strict=True) if gate.gate is not None
            ]
            made = [gate.gate for gate in gates if gate.gate is not None]
            if losses.ndim != 1 or any(
                len(gate) % len(losses) if rows else len(gate) != len(losses)
                for gate, rows in zip(made, flat, strict=True)
            ):
                raise ValueError(
                    f"one loss for each sample, (B,), is needed; got {tuple(losses.shape)}"
                )
            # (B, width) each
            of_samples = (
                by_sample(g, len(losses)) for g in torch.autograd.grad(losses.sum(), made)
            )
            part = [g.abs().double().sum(0).cpu() for g in of_samples]
            found = part if found is None else [a + b for a, b in zip(found, part, strict=True)]
            samples += len(losses)
    if found is None:
        raise ValueError(
            "ffn_importance needs at least one batch, got none: is the iterator used up?"
        )
    return [size / samples for size in found]


def slice_ffn(model: nn.Module, keep: Sequence[Tensor]) -> nn.Module:
    """A copy whose feed-forward parts have the neurons alone that are kept: the same
    outputs as with the others' activations at 0.

    Args:
        keep: bool (width,) for each part, True = kept; at least one stays. (0,) where
            :func:`remove_mlps` has taken the part.

    Raises:
        ValueError: if ``keep`` does not fit the model, or a part would keep none
            (:func:`remove_mlps` takes whole parts).
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    found = _with_neurons(model)
    if len(keep) != len(found):
        raise ValueError(
            f"keep holds a mask for each of the {len(found)} feed-forward parts, got {len(keep)}"
        )
    for mlp, kept in zip(found, keep, strict=True):
        width = sizes(model.get_submodule(mlp.out))[0]
        if kept.dtype != torch.bool or kept.shape != (width,):
            raise ValueError(
                f"{mlp.out}: keep is bool ({width},), got {kept.dtype} {tuple(kept.shape)}"
            )
        if not width:
            continue
        if not kept.any():
            raise ValueError(
                f"{mlp.out}: no neuron would be left; remove_mlps removes a whole part"
            )
        stay = kept.nonzero().flatten()
        for path in mlp.first:
            layer = model.get_submodule(path)
            # one layer that makes both halves has twice the width
            starts = torch.arange(0, sizes(layer)[1], width)
            cut(layer, outputs=(starts[:, None] + stay).flatten())
        cut(model.get_submodule(mlp.out), inputs=stay)
    return model


def _with_neurons(model: nn.Module) -> list[MLP]:
    found = find_mlps(model)
    for mlp in found:
        if mlp.neurons:
            raise ValueError(
                f"{mlp.name!r} has no neurons that can be scored or removed one by one:"
                f" {mlp.neurons}; remove_mlps removes the whole part"
            )
    return found


class _NeuronGate:
    """A gate of 1 for each sample and neuron on what a layer reads, made when a batch
    shows how many there are.
    """

    def __init__(self) -> None:
        self.gate: Tensor | None = None

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x = inputs[0]  # (B, …, width)
        if self.gate is None:
            self.gate = torch.ones(
                len(x), x.shape[-1], dtype=x.dtype, device=x.device, requires_grad=True
            )
        return (x * self.gate.view(len(x), *[1] * (x.ndim - 2), -1), *inputs[1:])
