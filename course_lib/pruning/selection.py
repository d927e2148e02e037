"""Selection: prune exactly the ``count`` smallest of many numbers, fast.

Which numbers are the smallest is a question of *selection*, not of sorting: the k-th smallest splits them, and nobody
asks how the two sides are ordered inside. Sorting 25 million scores takes seconds, selecting a fraction of a second.

Everything here runs on the CPU, so that the scores of every device give the same masks, and in numpy: its comparisons,
counts and partitions use the whole width of the processor, and need no other threads that would have to be waited for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]

_SMALL = 100_000  # below this many numbers one partition is as fast as anything


def count_pruned(sparsity: float, n: int) -> int:
    """How many of ``n`` are pruned: ``round(sparsity * n)``, Python's round (half to even).

    Raises:
        ValueError: if ``sparsity`` is not a number in [0, 1].
    """
    sparsity = float(sparsity)
    if not 0 <= sparsity <= 1:
        hint = f" (for {sparsity:g} % write {sparsity / 100:g})" if 1 < sparsity <= 100 else ""
        raise ValueError(f"sparsity is the fraction to prune, between 0 and 1, got {sparsity:g}{hint}")
    return round(sparsity * n)


def flat(score: Tensor, name: str = "") -> Vector:
    """``score`` as a vector (n,) in row-major order: float32, float64 or int64, whichever holds its numbers exactly.

    Raises:
        ValueError: if an entry is NaN (it is neither small nor large), or the dtype has no order.
    """
    where = f" of {name!r}" if name else ""
    if score.is_complex():
        raise ValueError(f"the score{where} is complex, and complex numbers have no order: use its absolute value")
    vector = score.detach().flatten().cpu()
    if not vector.is_floating_point():
        return vector.long().numpy()
    numbers = (vector if vector.itemsize >= 4 else vector.float()).numpy()
    if len(numbers) and np.isnan(numbers.min()):  # the minimum hands a NaN on: one fast pass, nothing to store
        raise ValueError(
            f"a score{where} is NaN, and NaN can be ranked nowhere: did training diverge, or was a gradient taken on "
            "an empty batch? Look at the weights with torch.isnan"
        )
    return numbers


def prune_smallest(parts: Sequence[Vector], count: int) -> list[Vector]:
    """Bool vectors (True = kept) that prune the ``count`` smallest of all ``parts`` taken together.

    Among equal numbers the one that comes first, in the order of the parts, is pruned first.

    For many numbers the way is Floyd and Rivest's: a random sample brackets the number that splits kept from pruned.
    What lies above the bracket is kept and what lies below is pruned, by two comparisons over all numbers; only the few
    inside, about 1 %, have to be partitioned. The sample decides how long it takes, never what comes out.

    Args:
        parts: vectors as :func:`flat` makes them.
        count: how many to prune, 0 <= count <= n.

    Source: Floyd and Rivest 1975, "Expected time bounds for selection", Communications of the ACM 18(3).
    """
    if len({part.dtype for part in parts}) > 1:
        parts = [part.astype(np.float64) for part in parts]
    n = sum(len(part) for part in parts)
    if count in (0, n):
        return [np.full(len(part), count == 0) for part in parts]
    if n <= _SMALL:
        return _partition(parts, count)

    low, high = _bracket(parts, count, n)
    kept = [part > high for part in parts]
    inside = [part >= low for part in parts]
    for i, above in zip(inside, kept, strict=True):
        i ^= above  # in place: fresh memory costs more than the comparison
    width = int(sum(np.count_nonzero(i) for i in inside))
    below = n - width - int(sum(np.count_nonzero(above) for above in kept))
    if not below <= count <= below + width or width > n // 4:  # an unlucky sample, or very many equal numbers
        return _partition(parts, count)

    places = [np.flatnonzero(i) for i in inside]
    verdicts = _partition([part[place] for part, place in zip(parts, places, strict=True)], count - below)
    for above, place, verdict in zip(kept, places, verdicts, strict=True):
        above[place] = verdict
    return kept


def _partition(parts: Sequence[Vector], count: int) -> list[Vector]:
    """What :func:`prune_smallest` promises, by one partition of all numbers."""
    numbers = np.concatenate(parts)
    n = len(numbers)
    if count in (0, n):
        kept = np.full(n, count == 0)
    else:
        kth = np.partition(numbers, count - 1)[count - 1]  # the count-th smallest
        kept = numbers > kth
        spared = n - count - np.count_nonzero(kept)  # as small as that, but beyond the count: the last ones
        if spared:
            kept[np.flatnonzero(numbers == kth)[-spared:]] = True
    ends = np.cumsum([len(part) for part in parts])
    return [k.copy() for k in np.split(kept, ends[:-1])]  # copies, so that one can be kept or saved without the others


def _bracket(parts: Sequence[Vector], count: int, n: int) -> tuple[Any, Any]:
    """Two numbers between which the ``count``-th smallest very likely lies: four standard deviations to each side."""
    rng = np.random.default_rng(0)  # its own: the caller's randomness is not touched
    parts = [part for part in parts if len(part)]
    share = n ** (2 / 3) / n
    sample = np.sort(
        np.concatenate([part[rng.integers(len(part), size=math.ceil(share * len(part)))] for part in parts])
    )
    m, p = len(sample), count / n
    margin = 4 * math.sqrt(m * p * (1 - p)) + 1
    low, high = math.floor(m * p - margin), math.ceil(m * p + margin)
    smallest = sample[low] if low >= 0 else min(part.min() for part in parts)
    largest = sample[high] if high < m else max(part.max() for part in parts)
    return smallest, largest
