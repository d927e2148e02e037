"""Feed-forward parts as things that can go: a gate on each, what the loss says of it,
and removal.

Source: Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets Are
Winning", section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from course_lib.checks import check_mask
from course_lib.models.attention import find_attention
from course_lib.models.mlps import MLP, find_mlps, remove_parts_, without_nested_tensors
from course_lib.pruning.heads.gates import Gate, of_heads
from course_lib.pruning.heads.importance import heads_grid, mean_gradients
from course_lib.wrapped import hold_hooks, refuse_wrapped

Batch = TypeVar("Batch")


@contextmanager
def gated_mlps(model: nn.Module, nu: Tensor | Sequence[Tensor]) -> Iterator[None]:
    """Inside the block the output of every feed-forward part, its bias included, is multiplied
    by its gate; gradients flow to ``nu``.

    Args:
        nu: (layers,), or (layers, B) with gates for each sample; bool, too.

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
            hooks.callback(_of_part(mlp, gate[..., None]).attach(model))
        yield


def _of_part(mlp: MLP, gate: Tensor | None = None) -> Gate:
    """A gate on all that a feed-forward part puts out."""
    return Gate(mlp.out, 1, gate, "nu", mlp.flat, "output")


def joint_importance(
    model: nn.Module, batches: Iterable[Batch], loss_fn: Callable[[nn.Module, Batch], Tensor]
) -> tuple[Tensor, Tensor]:
    """E_x |∂L(x)/∂ξ| of every head and E_x |∂L(x)/∂ν| of every feed-forward part, at gates of 1,
    from one backward pass a batch: (layers, heads) and (layers,), float64, independent of the
    batch size.

    Args and raises as :func:`course_lib.pruning.heads.head_importance`. Inside
    :func:`course_lib.pruning.heads.gated` and :func:`gated_mlps` it is that of what is left.
    """
    attention, mlps = find_attention(model), find_mlps(model)
    gates = [*(of_heads(a) for a in attention if a.heads), *map(_of_part, mlps)]
    found = mean_gradients(model, batches, loss_fn, gates)
    return heads_grid(attention, found), torch.cat(found[-len(mlps) :])


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
