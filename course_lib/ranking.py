"""The course's rule for ties: of equal scores the first in row-major order goes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]


def prune_lowest(scores: Tensor, k: int, dim: int | None = None, name: str = "") -> Tensor:
    """The mask that prunes exactly the ``k`` lowest scores, of equal ones those that come first.

    Args:
        scores: any shape and real dtype, larger = more important; no NaN.
        k: how many to prune.
        dim: None: of all scores, in row-major order; else ``k`` in every line along it (1: a row).
        name: for the message, whose scores they are.

    Returns:
        bool, of the shape and on the device of ``scores``: True = kept, False = pruned.

    Raises:
        ValueError: if ``k`` is not from 0 to the number of scores, or one is NaN or complex.
    """
    n = scores.numel() if dim is None else scores.shape[dim]
    if not 0 <= k <= n:
        raise ValueError(f"k must be a count from 0 to {n}, of the {n} scores to rank, got {k}")
    if dim is None:
        (alone,) = prune_smallest([flat(scores, name)], k)
        return torch.from_numpy(alone).view(scores.shape).to(scores.device)
    _refuse(scores, name, nan=bool(scores.isnan().any()))  # where they are: no copy leaves a GPU
    lines = scores.detach().movedim(dim, -1)  # (…, n)
    kept = ranks(lines.reshape(-1, n)) >= k
    return kept.reshape(lines.shape).movedim(-1, dim).contiguous()


def flat(score: Tensor, name: str = "") -> Vector:
    """``score`` as a vector (n,) in row-major order: float32, float64 or int64, whichever holds its
    numbers exactly. NaN, neither small nor large, and complex numbers are refused.
    """
    _refuse(score, name)
    vector = score.detach().flatten().cpu()
    if not vector.is_floating_point():
        return vector.long().numpy()
    numbers = (vector if vector.itemsize >= 4 else vector.float()).numpy()
    # the minimum hands a NaN on: one fast pass, nothing to store
    _refuse(score, name, nan=bool(len(numbers) and np.isnan(numbers.min())))
    return numbers


def _refuse(score: Tensor, name: str, nan: bool = False) -> None:
    where = f" of {name!r}" if name else ""
    if score.is_complex():
        raise ValueError(f"the score{where} is complex, which has no order: use its absolute value")
    if nan:
        raise ValueError(f"a score{where} is NaN: did training diverge, or was a batch empty?")


def prune_smallest(parts: Sequence[Vector], count: int) -> list[Vector]:
    """Bool vectors (True = kept) that prune the ``count`` smallest of all ``parts``, as
    :func:`flat` makes them, taken together; among equal numbers those that come first.
    """
    if count in (0, sum(map(len, parts))):
        return [np.full(len(part), count == 0) for part in parts]
    every = np.concatenate(parts)
    every.partition(count - 1)  # not a sort: the order on either side is not needed
    last = every[count - 1]  # the largest that is pruned, and how many equal to it are
    tied = count - int(np.count_nonzero(every[:count] < last))
    kept = []
    for part in parts:
        keep = part > last
        equal = np.flatnonzero(part == last)
        keep[equal[tied:]] = True
        tied -= min(tied, len(equal))
        kept.append(keep)
    return kept


def ranks(lines: Tensor) -> Tensor:
    """(K, m): how many of its line go before each, the smaller and equal ones of lower index."""
    m = lines.shape[1]
    if m > 16:
        return lines.argsort(dim=1, stable=True).argsort(dim=1)
    # (m, K): for short lines comparing all pairs is faster than to sort each
    places = lines.T.contiguous()
    ranks = torch.zeros(places.shape, dtype=torch.uint8, device=lines.device)
    for later in range(m):
        for earlier in range(later):
            goes = places[earlier] <= places[later]
            ranks[later] += goes
            ranks[earlier] += ~goes
    return ranks.T
