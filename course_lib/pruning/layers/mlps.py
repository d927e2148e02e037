"""Feed-forward parts as things that can go: a gate on each, what the loss says of it,
and removal.

Source: Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets Are
Winning", section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from course_lib.checks import check_mask
from course_lib.models.attention import find_attention
from course_lib.models.mlps import MLP, find_mlps, remove_parts_, without_nested_tensors
from course_lib.pruning.heads.importance import OnesGate, gate_heads, heads_grid, sample_gradients
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
        hooks.enter_context(without_nested_tensors(model))
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
    attention, mlps = find_attention(model), find_mlps(model)

    def put(hooks: ExitStack) -> list[OnesGate]:
        nu = [PartGate(mlp) for mlp in mlps]
        for gate in nu:
            out = model.get_submodule(gate.place)
            hooks.callback(out.register_forward_hook(gate.scale_output).remove)
        return [*gate_heads(model, attention, hooks), *nu]

    found = mean_gradients(model, batches, loss_fn, put)
    of_heads = [size[None] for size in found[: -len(mlps)]]
    return heads_grid(attention, of_heads)[0], torch.stack(found[-len(mlps) :])


class PartGate:
    """Gates of 1 for each sample in a feed-forward part, made when a batch shows how many
    there are.
    """

    def __init__(self, mlp: MLP, flat: bool = True) -> None:
        self.place, self.flat = mlp.out, flat
        self.gate: Tensor | None = None

    def scale_output(self, module: nn.Module, inputs: tuple[Any, ...], x: Tensor) -> Tensor:
        """A forward hook: one gate on what the layer puts out."""
        return x * self._ones(x).view(-1, *[1] * (x.ndim - 1))

    def scale_input(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """A forward pre-hook: one gate for each neuron that the layer reads."""
        x = inputs[0]  # (B, …, width)
        gate = self._ones(x, x.shape[-1])
        return (x * gate.view(len(x), *[1] * (x.ndim - 2), -1), *inputs[1:])

    def _ones(self, x: Tensor, *width: int) -> Tensor:
        if self.gate is None:
            self.gate = x.new_ones(len(x), *width, requires_grad=True)
        return self.gate


def mean_gradients(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    put: Callable[[ExitStack], Sequence[OnesGate]],
) -> list[Tensor]:
    """E_x |∂L(x)/∂gate| of all gates that ``put`` hangs into the model: the mean of
    :func:`course_lib.pruning.heads.importance.sample_gradients`.
    """
    total: list[Tensor | float] = []
    samples = 0
    for sizes in sample_gradients(model, batches, loss_fn, put):
        total = [a + b.sum(0) for a, b in zip(total or [0.0] * len(sizes), sizes, strict=True)]
        samples += len(sizes[0])
    return [torch.as_tensor(part) / samples for part in total]


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
    check_mask(keep, "keep", [len(found)])
    remove_parts_(model, [mlp for mlp, kept in zip(found, keep.tolist(), strict=True) if not kept])
    return model
