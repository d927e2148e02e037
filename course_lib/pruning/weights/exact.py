"""Selection: prune exactly the ``count`` smallest of many numbers.

The k-th smallest number splits them into pruned and kept; their order on either side is
not needed. Sorting 25 million scores takes seconds, ``numpy.partition`` half a second;
``torch.kthvalue`` takes longer, and minutes where the scores fall from first to last. (On
networks of a few million weights, ``scores.argsort(stable=True)`` is as good.)

Everything here runs on the CPU, so that the scores of every device give the same masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import check_fraction

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]


def count_pruned(sparsity: float, n: int) -> int:
    """How many of ``n`` are pruned: ``round(sparsity * n)``, Python's round (half to
    even).

    Raises:
        ValueError: if ``sparsity`` is not a number in [0, 1].
    """
    return round(check_fraction(sparsity, "sparsity", "the fraction to prune") * n)


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

    # the largest number that is pruned
    last = np.partition(np.concatenate(parts), count - 1)[count - 1]
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


def keep_largest(score: Tensor, count: int, name: str = "") -> Tensor:
    """The bool mask (True = kept) of the shape and on the device of ``score`` that prunes its
    ``count`` smallest numbers, among equal ones the first in row-major order.

    Raises:
        ValueError: as :func:`flat`.
    """
    (kept,) = prune_smallest([flat(score, name)], count)
    return torch.from_numpy(kept).view(score.shape).to(score.device)
