"""Selection: from scores to masks, by single weights or by whole groups, layer by layer
or over all layers.

The finer the group, the more freedom and the better the accuracy at equal sparsity; the
coarser, the easier for the hardware to gain from the zeros. Every function prunes an
exact count, and among equal scores the lower index first.

The k-th smallest number splits them into pruned and kept; their order on either side is
not needed. It is found digit by digit, as a radix sort would: the numbers are read
and counted by their first 16 bits, then by the next, until few are left, and nothing of
their size is stored. So they may be computed while they are read, layer by layer, for a
model whose scores would not fit into memory. All runs on the CPU, so that the scores of
every device give the same masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import check_fraction, check_numbers, check_same_names
from course_lib.models.layouts import layout_of, note_rule
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]
_AT_ONCE = 1 << 20  # numbers held beside the parts


def count_pruned(sparsity: float, n: int, name: str = "sparsity") -> int:
    """How many of ``n`` are pruned: ``round(sparsity * n)``, Python's round (half to
    even).

    Raises:
        ValueError: if ``sparsity`` is not a number in [0, 1].
    """
    return round(check_fraction(sparsity, name, "the fraction to prune") * n)


def flat(score: Tensor, name: str = "") -> Vector:
    """``score`` as a vector (n,) in row-major order: float32, float64 or int64,
    whichever holds its numbers exactly.

    Raises:
        ValueError: if an entry is NaN (it is neither small nor large), or the dtype has
            no order.
    """
    where = f" of {name!r}" if name else ""
    if score.is_complex():
        raise ValueError(
            f"the score{where} is complex, and complex numbers have no order: use its absolute"
            " value"
        )
    vector = score.detach().flatten().cpu()
    if not vector.is_floating_point():
        return vector.long().numpy()
    numbers = (vector if vector.itemsize >= 4 else vector.float()).numpy()
    # the minimum hands a NaN on: one fast pass, nothing to store
    if len(numbers) and np.isnan(numbers.min()):
        raise ValueError(
            f"a score{where} is NaN, and NaN can be ranked nowhere: did training diverge, or was a"
            " gradient taken on an empty batch? Look at the weights with torch.isnan"
        )
    return numbers


def prune_smallest(parts: Iterable[Vector], count: int) -> list[Vector]:
    """Bool vectors (True = kept) that prune the ``count`` smallest of all ``parts``
    taken together.

    Among equal numbers the one that comes first, in the order of the parts, is pruned
    first.

    Args:
        parts: vectors as :func:`flat` makes them, in something that can be read several
            times, each time from the start.
        count: how many to prune, 0 <= count <= n.
    """
    shapes = [(len(part), part.dtype) for part in parts]
    n = sum(length for length, _ in shapes)
    if count in (0, n):
        return [np.full(length, count == 0) for length, _ in shapes]
    dtypes = {dtype for _, dtype in shapes}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float64)

    # narrow down, 16 bits at a time, to few numbers that begin with the same bits
    prefix, rank, left = 0, count, n
    shift = width = 8 * dtype.itemsize
    while left > _AT_ONCE and shift:
        beside = shift
        shift -= 16
        counts = np.zeros(1 << 16, np.int64)
        for keys in _keys(parts, dtype):
            if beside < width:
                keys = keys[keys >> beside == prefix]
            counts += np.bincount((keys >> shift).astype(np.uint16), minlength=1 << 16)
        up_to = counts.cumsum()
        digit = int(np.searchsorted(up_to, rank))
        left = int(counts[digit])
        rank -= int(up_to[digit]) - left
        prefix = prefix << 16 | digit

    # the largest that is pruned, and how many equal to it are
    last = prefix
    if shift:
        few = np.concatenate([keys[keys >> shift == prefix] for keys in _keys(parts, dtype)])
        few.partition(rank - 1)
        last = few[rank - 1]
        rank -= int(np.count_nonzero(few < last))
    kept = []
    for part in parts:
        k = np.empty(len(part), bool)
        for i, keys in enumerate(_keys([part], dtype)):
            some = k[i * _AT_ONCE :][: len(keys)]
            np.greater(keys, last, out=some)
            tied = np.flatnonzero(keys == last)
            some[tied[rank:]] = True
            rank -= min(rank, len(tied))
        kept.append(k)
    return kept


def _keys(parts: Iterable[Vector], dtype: np.dtype[Any]) -> Iterator[Vector]:
    """The numbers as unsigned integers in the same order, ``_AT_ONCE`` at a time. Bits of
    floating-point numbers (IEEE 754) rise with the number if it is positive, and fall
    if it is negative.
    """
    signed, unsigned = np.dtype(f"i{dtype.itemsize}"), np.dtype(f"u{dtype.itemsize}")
    width = 8 * dtype.itemsize
    sign = 1 << width - 1
    for part in parts:
        for start in range(0, len(part), _AT_ONCE):
            some = part[start : start + _AT_ONCE].astype(dtype)
            if dtype.kind == "i":
                yield some.view(unsigned) ^ sign
            else:
                some += 0  # -0 becomes 0
                negative = (some.view(signed) >> width - 1).view(unsigned)  # all bits, or none
                yield some.view(unsigned) ^ (negative | sign)


def keep_largest(score: Tensor, count: int, name: str = "") -> Tensor:
    """The bool mask (True = kept) of the shape and on the device of ``score`` that prunes its
    ``count`` smallest numbers, among equal ones the first in row-major order.

    Raises:
        ValueError: as :func:`flat`.
    """
    (kept,) = prune_smallest([flat(score, name)], count)
    return torch.from_numpy(kept).view(score.shape).to(score.device)


T = TypeVar("T")
#: What goes as a whole (single weights, rows of kernels, kernels, filters).
GRANULARITIES = ("element", "row", "kernel", "filter")


def smallest(score: Tensor, sparsity: float) -> Tensor:
    """The mask that prunes the smallest scores: False (pruned) at exactly
    ``round(sparsity * n)`` of them, else True.

    Args:
        score: any shape, larger = more important; any real dtype.
        sparsity: fraction to prune, in [0, 1].

    Returns:
        A bool mask of the shape and on the device of ``score``.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1] or a score is NaN.
    """
    return keep_largest(score, count_pruned(sparsity, score.numel()))


def threshold(score: Tensor, a: float) -> Tensor:
    """The mask that keeps every score >= ``a``: the count is what it comes to.

    Raises:
        ValueError: if ``a`` or a score is NaN.
    """
    if a != a:
        raise ValueError(
            "the threshold is NaN, so every comparison with it is false: give a number"
        )
    check_numbers(score)
    return score.detach() >= a


def group_scores(score: Tensor, granularity: str) -> Tensor:
    """One score per group: the sum over its members, so the L1 norm of the group where
    the score is |w|.

    ========== ============================== =================================== ==================
    group      convolution (M, C, R, S)       sums over                           result
    ========== ============================== =================================== ==================
    element    one weight                     nothing                             (M, C, R, S)
    row        one line of a kernel           S                                   (M, C, R)
    kernel     one filter's part for 1 input  R, S                                (M, C)
    filter     all that makes 1 output        C, R, S                             (M,)
    ========== ============================== =================================== ==================

    Other numbers of spatial dimensions work in the same way. For a matrix (d_out, d_in)
    there are "element" and "filter", a row of the matrix: all that makes one output. A
    score that carries the layout of its layer (:mod:`course_lib.models.layouts`: Conv1D,
    transposed convolutions, fused experts) is brought into this order first.

    Args:
        score: one score per weight, the shape of the weight.
        granularity: one of ``GRANULARITIES``.

    Returns:
        float64: thousands of float32 numbers summed up in float32 could swap the ranks
            of two groups.

    Raises:
        ValueError: if the granularity is unknown or the tensor has no such groups.

    Source: Mao et al. 2017, "Exploring the Granularity of Sparsity in Convolutional
    Neural Networks"; for filters, Li et al. 2017, "Pruning Filters for Efficient
    ConvNets".
    """
    if granularity != "element":
        score = layout_of(score).upright(score)
    kept_dims = _group_dims(score, granularity)
    score = score.detach()
    if score.device.type == "mps":  # Apple's GPUs have no float64
        score = score.cpu()
    if kept_dims == score.ndim:
        return score.double()
    return score.flatten(kept_dims).sum(-1, dtype=torch.float64)


def local_masks(
    scores: Scores,
    sparsity: float | Mapping[str, float],
    granularity: str | Mapping[str, str] = "element",
) -> Masks:
    """Prune each layer by itself: in each, the groups with the smallest scores, exactly
    ``round(sparsity * groups)``.

    Args:
        scores: one tensor per parameter name, larger = more important.
        sparsity: fraction of the groups to prune in every layer, or one fraction per
            name.
        granularity: one of ``GRANULARITIES`` for every layer, or one per name (a
            convolutional net ends in a matrix, which has no rows or kernels).

    Returns:
        Masks (True = kept) with the keys, shapes and devices of ``scores``.

    Raises:
        ValueError: if a sparsity is outside [0, 1], a score is NaN, a layer has no such
            groups, or names do not match.
    """
    sparsities = _per_name(sparsity, scores, "sparsity")
    granularities = _per_name(granularity, scores, "granularity")
    masks = {}
    for name, score in scores.items():
        groups = _groups(score, granularities[name], name)
        (kept,) = prune_smallest([groups], count_pruned(sparsities[name], len(groups)))
        masks[name] = _spread(kept, score)
    return masks


def global_masks(scores: Mapping[str, Tensor], sparsity: float) -> Masks:
    """Prune the weights with the smallest scores over all layers together: one
    threshold for all.

    Exactly ``round(sparsity * n)`` of the n weights go; among equal scores, the one
    that comes first in the order of ``scores``. Scores are read a few times, one tensor
    at a time, so those of :class:`.ScoresOnDemand` need no memory of the model's size.

    Args:
        scores: one tensor per parameter name, any shapes; larger = more important.
        sparsity: fraction to prune, in [0, 1].

    Returns:
        Masks (True = kept) with the keys, shapes and devices of ``scores``.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1] or a score is NaN.

    Source: Frankle & Carbin 2019, "The Lottery Ticket Hypothesis", section 4: deeper
    networks are pruned globally, lest their smallest layers become bottlenecks.
    """
    count = count_pruned(sparsity, sum(score.numel() for score in scores.values()))
    kept = prune_smallest(_Vectors(scores), count)
    return {name: _spread(k, score) for (name, score), k in zip(scores.items(), kept, strict=True)}


class _Vectors:
    """Scores as vectors, each made when it is read."""

    def __init__(self, scores: Mapping[str, Tensor]) -> None:
        self.scores = scores

    def __iter__(self) -> Iterator[Vector]:
        return (flat(score, name) for name, score in self.scores.items())


def global_group_masks(
    scores: Scores, sparsity: float, granularity: str | Mapping[str, str]
) -> Masks:
    """Prune the groups with the smallest *mean* scores over all layers together:
    ``round(sparsity * groups)`` of them.

    The mean, because groups of different layers differ in size: by their sums, the
    small groups would always go first. For the same reason the fraction of *weights*
    pruned can differ from ``sparsity``; ``sparsity(masks)`` tells it. Arguments, result
    and errors otherwise as in :func:`local_masks`.
    """
    granularities = _per_name(granularity, scores, "granularity")
    means = []
    for name, score in scores.items():
        groups = _groups(score, granularities[name], name)
        means.append(groups / max(1, score.numel() // max(1, len(groups))))
    kept = prune_smallest(means, count_pruned(sparsity, sum(len(mean) for mean in means)))
    return {name: _spread(k, score) for (name, score), k in zip(scores.items(), kept, strict=True)}


def _group_dims(score: Tensor, granularity: str, name: str = "") -> int:
    """How many leading dimensions tell the groups apart; all others are summed."""
    if granularity not in GRANULARITIES:
        raise ValueError(
            f"granularity {granularity!r} is unknown: choose from {', '.join(GRANULARITIES)}"
        )
    least = {"element": 0, "filter": 2, "row": 3, "kernel": 3}[granularity]
    if score.ndim < least:
        instead = '"element" or "filter" (a row of the matrix)' if score.ndim == 2 else '"element"'
        raise ValueError(
            f"granularity {granularity!r} does not exist in {name or 'a tensor'} of shape"
            f" {tuple(score.shape)}: use {instead}; give each layer its own, {{name: granularity}}"
        )
    return {"element": score.ndim, "row": score.ndim - 1, "kernel": 2, "filter": 1}[granularity]


def _groups(score: Tensor, granularity: str, name: str) -> Vector:
    """:func:`group_scores` as a vector, with the name in its errors; single weights in their
    own dtype, since nothing is summed.
    """
    if granularity == "element":
        return flat(score, name)
    _group_dims(layout_of(score).upright(score), granularity, name)
    return flat(group_scores(score, granularity), name)


def _spread(kept: Vector, score: Tensor) -> Tensor:
    """A verdict per group (groups,) as a mask of the shape of ``score``: the group's
    members lie next to each other.
    """
    mask = torch.from_numpy(kept)
    if len(kept) == score.numel():
        return mask.view(score.shape).to(score.device)
    layout = layout_of(score)
    mask = mask.repeat_interleave(score.numel() // len(kept))
    mask = layout.back(mask.view(layout.upright(score).shape)).to(score.device)
    return note_rule(mask, layout)


def _per_name(value: T | Mapping[str, T], scores: Scores, what: str) -> Mapping[str, T]:
    """``value`` for every name, or the mapping that was given, if it has the names of
    ``scores``.
    """
    if not isinstance(value, Mapping):
        return dict.fromkeys(scores, value)
    check_same_names(value, scores, what)
    return value
