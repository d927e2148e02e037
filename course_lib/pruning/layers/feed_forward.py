"""Feed-forward parts, and their single neurons, as things that can go: a gate on each, what
the loss says of it, and removal.

Source: Prasanna, Rogers & Rumshisky 2020, "When BERT Plays the Lottery, All Tickets Are
Winning", section 3; neurons: gates as Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", put on heads (section 4.1).
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
from course_lib.models.conv1d import cut, sizes
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
    """
    mlps = find_mlps(model)
    n = len(mlps)
    if len(nu) != n or any(gate.ndim > 1 for gate in nu):
        raise ValueError(f"nu should be (layers,) = ({n},), or ({n}, B), got {len(nu)} rows")
    with hold_hooks() as hooks:
        hooks.enter_context(without_nested_tensors(model))
        for mlp, gate in zip(mlps, nu, strict=True):
            hooks.callback(_of_part(mlp, gate[..., None]).attach(model))
        yield


def _of_part(mlp: MLP, gate: Tensor | None = None) -> Gate:
    """A gate on all that a feed-forward part puts out."""
    return Gate(mlp.out, 1, gate, "nu", mlp.flat, output=True)


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


def ffn_importance(
    model: nn.Module, batches: Iterable[Batch], loss_fn: Callable[[nn.Module, Batch], Tensor]
) -> list[Tensor]:
    """E_x |∂L(x)/∂gate| of every feed-forward neuron, as :func:`joint_importance`: (width,) for
    each feed-forward part.
    """
    mlps = _with_neurons(model)
    gates = [Gate(m.out, sizes(model.get_submodule(m.out))[0], flat=m.flat) for m in mlps]
    return mean_gradients(model, batches, loss_fn, gates)


def remove_mlps(model: nn.Module, keep: Tensor) -> nn.Module:
    """A copy without the feed-forward parts where ``keep``, bool (layers,), is False: their
    layers add nothing to the residual stream, and compute nothing. ``save_pruned`` stores it.
    """
    refuse_wrapped(model, "parallel", "compile", "script")
    model = copy.deepcopy(model)
    found = find_mlps(model)
    check_mask(keep, "keep", [len(found)])
    remove_parts_(model, [mlp for mlp, kept in zip(found, keep.tolist(), strict=True) if not kept])
    return model


def slice_ffn(model: nn.Module, keep: Sequence[Tensor]) -> nn.Module:
    """A copy whose feed-forward parts have the neurons alone that are kept: the same
    outputs as with the others' activations at 0.

    Args:
        keep: bool (width,) for each part, at least one True; (0,) for one that is removed.
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
        check_mask(kept, f"keep of {mlp.out}", [width])
        stay = kept.nonzero().flatten()
        if width and not len(stay):
            raise ValueError(f"{mlp.out} would have no neuron; remove_mlps removes a whole part")
        for path in mlp.first if width else ():
            layer = model.get_submodule(path)
            # one layer that makes both halves has twice the width
            starts = torch.arange(0, sizes(layer)[1], width)
            cut(layer, outputs=(starts[:, None] + stay).flatten())
        cut(model.get_submodule(mlp.out), inputs=stay)
    return model


def _with_neurons(model: nn.Module) -> list[MLP]:
    found = find_mlps(model)
    if odd := next((mlp for mlp in found if mlp.neurons), None):
        raise ValueError(
            f"{odd.name!r} has no neurons that can be scored or removed one by one:"
            f" {odd.neurons}; remove_mlps removes the whole part"
        )
    return found
