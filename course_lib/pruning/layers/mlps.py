"""Feed-forward parts as things that can go: a gate on each, what the loss says of it,
and removal.

Source: Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets Are
Winning", section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from course_lib.models.attention import find_attention
from course_lib.models.mlps import find_mlps, mlp_outputs, padded, remove_parts_
from course_lib.modes import evaluating
from course_lib.pruning.heads.gates import attach
from course_lib.pruning.heads.importance import SampleGate, by_sample, check_losses, refuse_empty
from course_lib.wrapped import hold_hooks, refuse_wrapped

Batch = TypeVar("Batch")


@contextmanager
def gated_mlps(model: nn.Module, nu: Tensor | Sequence[Tensor]) -> Iterator[None]:
    """Inside the block the output of every feed-forward part, its bias included, is
    multiplied by its gate; gradients flow to ``nu``.

    Args:
        model: whose parts :func:`course_lib.models.mlps.find_mlps` knows. nu:
            (layers,), or (layers, B) with gates for each sample; bool, too.

    Raises:
        ValueError: if ``nu`` does not fit the model or, when it runs, the batch.
    """
    mlps = find_mlps(model)
    if len(nu) != len(mlps) or any(gate.ndim > 1 for gate in nu):
        raise ValueError(
            f"nu should be (layers,) = ({len(mlps)},), or ({len(mlps)}, B), got {len(nu)} rows"
        )
    with hold_hooks() as hooks:
        hooks.enter_context(padded(model))
        for mlp, gate in zip(mlps, nu, strict=True):
            out = model.get_submodule(mlp.out)
            hooks.callback(out.register_forward_hook(_scaling(gate, mlp.flat)).remove)
        yield


def _scaling(gate: Tensor, flat: bool) -> Callable[..., Tensor]:
    def scale(module: nn.Module, inputs: tuple[Any, ...], x: Tensor) -> Tensor:
        # rows per sample: its tokens where they are flat, else one
        rows = max(len(x) // len(gate), 1) if gate.ndim and flat else 1
        if gate.ndim and len(gate) * rows != len(x):
            raise ValueError(f"nu has gates for {len(gate)} samples, the batch has {len(x)}")
        wide = gate.repeat_interleave(rows) if rows > 1 else gate
        # (B or 1, 1, 1)
        return x * wide.to(device=x.device, dtype=x.dtype).view(-1, *[1] * (x.ndim - 1))

    return scale


def joint_importance(
    model: nn.Module, batches: Iterable[Batch], loss_fn: Callable[[nn.Module, Batch], Tensor]
) -> tuple[Tensor, Tensor]:
    """E_x |∂L(x)/∂ξ| of every head and E_x |∂L(x)/∂ν| of every feed-forward part, at
    gates of 1, from one backward pass a batch.

    Args:
        model: in evaluation mode meanwhile; modes and ``.grad`` are as before
            afterwards. Inside :func:`course_lib.pruning.heads.gated` and
            :func:`gated_mlps` it is that of what is left.
        loss_fn: ``loss_fn(model, batch)`` returns one loss for each sample, (B,).

    Returns:
        (layers, heads) and (layers,), float64. Independent of the batch size.

    Raises:
        ValueError: without batches, or if the losses are not one for each sample.
    """
    attention, outputs = find_attention(model), mlp_outputs(model)
    heads: list[Tensor] = []
    mlps: list[Tensor] = []
    samples = 0
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        for batch in batches:
            refuse_empty(batch)
            xi, nu = [SampleGate(a) for a in attention], [_SampleGate() for _ in outputs]
            with hold_hooks() as hooks:
                hooks.enter_context(padded(model))
                for a, gate in zip(attention, xi, strict=True):
                    hooks.callback(attach(model, a, gate))
                for out, part in zip(outputs, nu, strict=True):
                    hooks.callback(out.register_forward_hook(part).remove)
                losses = loss_fn(model, batch)
            check_losses(losses, xi)
            gates = [
                gate for gate in (*(g.gate for g in xi), *(g.gate for g in nu)) if gate is not None
            ]
            # (B, heads) each, then (B,) each
            found = [
                by_sample(g, len(losses))
                for g in torch.autograd.grad(losses.sum(), gates, materialize_grads=True)
            ]
            size = [g.abs().double().sum(0).cpu() for g in found]  # over samples
            heads.append(torch.stack(size[: len(attention)]))
            mlps.append(torch.stack(size[len(attention) :]))
            samples += len(losses)
    if not heads:
        raise ValueError(
            "joint_importance needs at least one batch, got none: is the iterator used up?"
        )
    return torch.stack(heads).sum(0) / samples, torch.stack(mlps).sum(0) / samples


class _SampleGate:
    """A gate of 1 for each sample on what a layer puts out, made when a batch shows how
    many there are.
    """

    def __init__(self) -> None:
        self.gate: Tensor | None = None

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], x: Tensor) -> Tensor:
        if self.gate is None:
            self.gate = torch.ones(len(x), dtype=x.dtype, device=x.device, requires_grad=True)
        return x * self.gate.view(-1, *[1] * (x.ndim - 1))


def remove_mlps(model: nn.Module, keep: Tensor) -> nn.Module:
    """A copy without the feed-forward parts where ``keep`` is False: their layers add
    nothing to the residual stream, and compute nothing. ``save_pruned`` stores it.

    Args:
        keep: (layers,) bool.

    Raises:
        ValueError: if ``keep`` does not fit the model.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    found = find_mlps(model)
    if keep.shape != (len(found),):
        raise ValueError(f"keep should be (layers,) = ({len(found)},), got {tuple(keep.shape)}")
    remove_parts_(model, [mlp for mlp, kept in zip(found, keep.tolist(), strict=True) if not kept])
    return model
