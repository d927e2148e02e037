"""Selection: prune exactly the ``count`` smallest of many numbers, fast.

Which numbers are the smallest is a question of *selection*, not of sorting: the k-th
smallest splits them, and nobody asks how the two sides are ordered inside. Sorting 25
million scores takes seconds, selecting a fraction of a second.

Everything here runs on the CPU, so that the scores of every device give the same masks,
and in numpy: its comparisons, counts and partitions use the whole width of the
processor, and need no other threads that would have to be waited for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]

_SMALL = 10_000  # up to so many numbers one partition is as fast as anything


def count_pruned(sparsity: float, n: int) -> int:
    """How many of ``n`` are pruned: ``round(sparsity * n)``, Python's round (half to
    even).

    Raises:
        ValueError: if ``sparsity`` is not a number in [0, 1].
    """
    sparsity = float(sparsity)
    if not 0 <= sparsity <= 1:
        hint = f" (for {sparsity:g} % write {sparsity / 100:g})" if 1 < sparsity <= 100 else ""
        raise ValueError(
            f"sparsity is the fraction to prune, between 0 and 1, got {sparsity:g}{hint}"
        )
    return round(sparsity * n)


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


def prune_smallest(parts: Sequence[Vector], count: int) -> list[Vector]:
    """Bool vectors (True = kept) that prune the ``count`` smallest of all ``parts``
    taken together.

    Among equal numbers the one that comes first, in the order of the parts, is pruned
    first.

    Args:
        parts: vectors as :func:`flat` makes them.
        count: how many to prune, 0 <= count <= n.
    """
    if len({part.dtype for part in parts}) > 1:
        parts = [part.astype(np.float64) for part in parts]
    n = sum(len(part) for part in parts)
    if count in (0, n):
        return [np.full(len(part), count == 0) for part in parts]

    last = _kth_smallest(parts, count)  # the largest number that is pruned
    kept = [part > last for part in parts]
    # equal to it, but beyond the count: the last of them
    spared = n - count - sum(np.count_nonzero(k) for k in kept)
    for part, k in zip(reversed(parts), reversed(kept), strict=True):
        if spared == 0:
            break
        equal = np.flatnonzero(part == last)[-spared:]
        k[equal] = True
        spared -= len(equal)
    return kept


def _kth_smallest(parts: Sequence[Vector], k: int) -> Any:
    """The ``k``-th smallest number, 1 <= k <= n, by Floyd and Rivest's way.

    A random sample gives two numbers between which the k-th smallest very likely lies.
    Only what lies between them, about 1 % of many numbers, has to be partitioned; the
    rest is compared and counted. The sample decides how long it takes, never what comes
    out.

    A number that occurs very often (the zeros of a network that is sparse already) is
    no hindrance: it fills so much of the sample that, if it is near the k-th, it is an
    end of the bracket. (numpy's own partition is slow on such data.)

    Source: Floyd and Rivest 1975, "Expected time bounds for selection", Communications
    of the ACM 18(3).
    """
    n = sum(len(part) for part in parts)
    if n > _SMALL:
        low, high = _bracket(parts, k, n)
        not_above_low = sum(int(np.count_nonzero(part <= low)) for part in parts)
        if not_above_low < k <= sum(np.count_nonzero(part < high) for part in parts):
            between = np.concatenate([part[(part > low) & (part < high)] for part in parts])
            return np.partition(between, k - not_above_low - 1)[k - not_above_low - 1]
        for end in (low, high):
            below = sum(np.count_nonzero(part < end) for part in parts)
            if below < k <= below + sum(np.count_nonzero(part == end) for part in parts):
                return end
    return np.partition(np.concatenate(parts), k - 1)[k - 1]  # few numbers, or an unlucky sample


def _bracket(parts: Sequence[Vector], k: int, n: int) -> tuple[Any, Any]:
    """Two numbers around the ``k``-th smallest of ``n``: four standard deviations of
    its rank in the sample away.
    """
    rng = np.random.default_rng(0)  # its own: the caller's randomness is not touched
    parts = [part for part in parts if len(part)]
    share = n ** (2 / 3) / n
    drawn = [part[rng.integers(len(part), size=math.ceil(share * len(part)))] for part in parts]
    sample = np.sort(np.concatenate(drawn))
    m, p = len(sample), k / n
    margin = 4 * math.sqrt(m * p * (1 - p)) + 1
    low, high = math.floor(m * p - margin), math.ceil(m * p + margin)
    smallest = sample[low] if low >= 0 else min(part.min() for part in parts)
    largest = sample[high] if high < m else max(part.max() for part in parts)
    return smallest, largest
