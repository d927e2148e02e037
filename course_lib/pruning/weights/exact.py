"""Selection: prune exactly the ``count`` smallest of many numbers.

The k-th smallest number splits them into pruned and kept; their order on either side is
not needed. It is found digit by digit, as a radix sort would: the numbers are read
and counted by their first 16 bits, then by the next, until few are left, and nothing of
their size is stored. So they may be computed while
they are read, layer by layer, for a model whose scores would not fit into memory. (On
networks of a few million weights, ``scores.argsort(stable=True)`` is as good.)

Everything here runs on the CPU, so that the scores of every device give the same masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from course_lib.checks import check_fraction

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]
_AT_ONCE = 1 << 20  # numbers held beside the parts


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
