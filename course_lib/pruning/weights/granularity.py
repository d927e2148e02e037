"""Selection: from scores to masks, by single weights or by whole groups, layer by layer or over all
layers.

The finer the group, the more freedom and the better the accuracy at equal sparsity; the coarser,
the easier for the hardware to gain from the zeros. Every function prunes an exact count, among
equal scores the lower index first; on the CPU, so that every device gives the same masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from course_lib.checks import check_fraction, check_names, check_same_names
from course_lib.models.layouts import layout_of, note_rule
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores
from course_lib.ranking import Vector, flat, prune_lowest, prune_smallest

T = TypeVar("T")
#: What goes as a whole (single weights, rows of kernels, kernels, filters).
GRANULARITIES = ("element", "row", "kernel", "filter")


def count_pruned(sparsity: float, n: int, name: str = "sparsity") -> int:
    """How many of ``n`` are pruned: ``round(sparsity * n)``, Python's round (half to even)."""
    return round(check_fraction(sparsity, name, "the fraction to prune") * n)


def smallest(score: Tensor, sparsity: float) -> Tensor:
    """The mask that prunes the smallest scores: False (pruned) at exactly ``round(sparsity * n)``
    of them, else True.

    Args:
        score: any shape and real dtype, larger = more important; no NaN.
        sparsity: fraction to prune, in [0, 1].
    """
    return prune_lowest(score, count_pruned(sparsity, score.numel()))


def group_scores(score: Tensor, granularity: str, name: str = "a tensor") -> Tensor:
    """One score per group: the sum over its members, so the L1 norm of the group where the score is
    |w|.

    ========== ============================== =================================== ==================
    group      convolution (M, C, R, S)       sums over                           result
    ========== ============================== =================================== ==================
    element    one weight                     nothing                             (M, C, R, S)
    row        one line of a kernel           S                                   (M, C, R)
    kernel     one filter's part for 1 input  R, S                                (M, C)
    filter     all that makes 1 output        C, R, S                             (M,)
    ========== ============================== =================================== ==================

    Other numbers of spatial dimensions work in the same way; a matrix (d_out, d_in) has "element"
    and "filter", a row: all that makes one output. A score that carries the layout of its layer
    (:mod:`course_lib.models.layouts`: Conv1D, transposed convolutions, fused experts) is brought
    into this order first. In float64: thousands of float32 numbers summed up in float32 could swap
    the ranks of two groups.

    Source: Mao et al. 2017, "Exploring the Granularity of Sparsity in Convolutional Neural
    Networks"; for filters, Li et al. 2017, "Pruning Filters for Efficient ConvNets".
    """
    check_names([granularity], GRANULARITIES, "granularity")
    if score.device.type == "mps":  # Apple's GPUs have no float64
        score = score.cpu()
    if granularity == "element":
        return score.detach().double()
    score = layout_of(score).upright(score).detach()
    if score.ndim < (2 if granularity == "filter" else 3):
        instead = '"element" or "filter" (a row of the matrix)' if score.ndim == 2 else '"element"'
        raise ValueError(
            f"granularity {granularity!r} does not exist in {name} of shape {tuple(score.shape)}:"
            f" use {instead}; give each layer its own, {{name: granularity}}"
        )
    # the leading dimensions tell groups apart, all others are summed
    own = {"row": score.ndim - 1, "kernel": 2, "filter": 1}[granularity]
    return score.flatten(own).sum(-1, dtype=torch.float64)


def local_masks(
    scores: Scores,
    sparsity: float | Mapping[str, float],
    granularity: str | Mapping[str, str] = "element",
) -> Masks:
    """Prune each layer by itself: in each, the groups with the smallest scores, exactly
    ``round(sparsity * groups)``.

    Args:
        scores: one tensor per parameter name, larger = more important.
        sparsity: fraction of the groups to prune in every layer, in [0, 1], or one per name.
        granularity: one of ``GRANULARITIES`` for every layer, or one per name (a convolutional net
            ends in a matrix, which has no rows or kernels).

    Returns:
        Masks (True = kept) with the keys, shapes and devices of ``scores``.
    """
    sparsities = _per_name(sparsity, scores, "sparsity")
    granularities = _per_name(granularity, scores, "granularity")
    masks = {}
    for name, score in scores.items():
        groups = _groups(score, granularities[name], name)
        (kept,) = prune_smallest([groups], count_pruned(sparsities[name], len(groups)))
        masks[name] = _spread(kept, score)
    return masks


def global_masks(
    scores: Scores, sparsity: float, granularity: str | Mapping[str, str] = "element"
) -> Masks:
    """Prune the weights with the smallest scores over all layers together: one threshold for all.

    Exactly ``round(sparsity * n)`` of the n weights go; among equal scores, the one that comes
    first in the order of ``scores``. Of groups ``round(sparsity * groups)`` go, those with the
    smallest *mean* scores: by their sums, the small groups of another layer would always go first.
    For the same reason the fraction of *weights* pruned can differ from ``sparsity``;
    ``sparsity(masks)`` tells it. Otherwise as :func:`local_masks`.

    Source: Frankle & Carbin 2019, "The Lottery Ticket Hypothesis", section 4: deeper networks are
    pruned globally, lest their smallest layers become bottlenecks.
    """
    granularities = _per_name(granularity, scores, "granularity")
    parts = []
    for name, score in scores.items():
        groups = _groups(score, granularities[name], name)
        members = score.numel() // max(1, len(groups))
        parts.append(groups / members if members > 1 else groups)
    kept = prune_smallest(parts, count_pruned(sparsity, sum(map(len, parts))))
    return {name: _spread(k, score) for (name, score), k in zip(scores.items(), kept, strict=True)}


def _groups(score: Tensor, granularity: str, name: str) -> Vector:
    """:func:`group_scores` as a vector; single weights in their own dtype, nothing is summed."""
    return flat(score if granularity == "element" else group_scores(score, granularity, name), name)


def _spread(kept: Vector, score: Tensor) -> Tensor:
    """A verdict per group (groups,) as a mask of the shape of ``score``: the group's members lie
    next to each other.
    """
    mask = torch.from_numpy(kept)
    if len(kept) == score.numel():
        return mask.view(score.shape).to(score.device)
    mask = mask.repeat_interleave(score.numel() // len(kept)).to(score.device)
    return by_rows(score, lambda upright: mask.view(upright.shape))


def by_rows(score: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    """The mask that ``rule`` makes of the score as (outputs, inputs, …), in the order of the
    weight; another weight's layout will refuse it.
    """
    layout = layout_of(score)
    return note_rule(layout.back(rule(layout.upright(score.detach()))), layout)


def _per_name(value: T | Mapping[str, T], scores: Scores, what: str) -> Mapping[str, T]:
    """``value`` for every name, or the mapping that was given, of the names of ``scores``."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(scores, value)
    check_same_names(value, scores, what)
    return value
