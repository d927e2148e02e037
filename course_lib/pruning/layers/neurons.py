"""Single neurons of the feed-forward parts: what the loss says of each, and narrower
parts without some.

Source: a gate on every neuron as Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", put on heads (section 4.1).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from course_lib.checks import check_mask
from course_lib.models.conv1d import cut, sizes
from course_lib.models.mlps import MLP, find_mlps
from course_lib.pruning.heads.gates import Gate
from course_lib.pruning.heads.importance import mean_gradients
from course_lib.wrapped import refuse_wrapped

Batch = TypeVar("Batch")


def ffn_importance(
    model: nn.Module, batches: Iterable[Batch], loss_fn: Callable[[nn.Module, Batch], Tensor]
) -> list[Tensor]:
    """E_x |∂L(x)/∂gate| of every feed-forward neuron, at gates of 1, from one backward pass a
    batch: (width,) float64 for each feed-forward part, independent of the batch size.

    Args and raises as :func:`course_lib.pruning.heads.head_importance`.
    """
    mlps = _with_neurons(model)
    widths = [sizes(model.get_submodule(mlp.out))[0] for mlp in mlps]
    gates = [Gate(m.out, width, flat=m.flat) for m, width in zip(mlps, widths, strict=True)]
    return mean_gradients(model, batches, loss_fn, gates)


def slice_ffn(model: nn.Module, keep: Sequence[Tensor]) -> nn.Module:
    """A copy whose feed-forward parts have the neurons alone that are kept: the same
    outputs as with the others' activations at 0.

    Args:
        keep: bool (width,) for each part, True = kept; at least one stays. (0,) where
            :func:`~course_lib.pruning.layers.remove_mlps` has taken the part.

    Raises:
        ValueError: if ``keep`` does not fit the model, or a part would keep none
            (:func:`~course_lib.pruning.layers.remove_mlps` takes whole parts).
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
