"""Column combining: sparse columns of a matrix packed into few dense ones, for a systolic array
with a multiplexer a cell.

Columns are grouped so that few rows hold two non-zeros in one group; where two meet, the smaller is
pruned, and the network trained on.

Source: Kung, McDanel & Zhang 2019, "Packing Sparse Convolutional Neural Networks for Efficient
Systolic Array Implementations: Column Combining Under Joint Optimization", ASPLOS, section 3: α is
``size``, γ is ``gamma``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import check_count

Groups = list[list[int]]


def group_columns(weight: Tensor, size: int, gamma: float) -> Groups:
    """Dense columns first, each to the group whose combined column then is fullest, within the two
    limits.

    Args:
        weight: (R, C). size: most columns in a group, at least 1.
        gamma: most conflicts in a group, in parts of R (the group's non-zeros less the rows that
            they occupy: three in one row are two conflicts); not negative, may be infinite.

    Returns:
        Groups in order of opening, columns in order of joining (of equally full columns the lower
        index first, of groups the one opened first). Columns without a non-zero are in none.
    """
    _check_matrix(weight)
    check_count(size, "size", 1)
    if not gamma >= 0:
        raise ValueError(f"gamma is a share of the rows and not negative, got {gamma}")
    there = (weight.detach() != 0).T.contiguous()  # (C, R)
    counts = there.sum(1)
    order = counts.argsort(descending=True, stable=True)
    most = gamma * weight.shape[0]
    groups: Groups = []
    occupied = there.new_zeros(there.shape)  # (groups, R); at most a group for each column
    nonzeros, members = counts.new_zeros(len(counts)), counts.new_zeros(len(counts))
    for column in order.tolist():
        if not counts[column]:
            break
        opened = len(groups)
        full = (occupied[:opened] | there[column]).sum(1)  # rows, if it joined
        conflicts = nonzeros[:opened] + counts[column] - full
        fits = (members[:opened] < size) & (conflicts.double() <= most)
        # the first of the fullest
        where = int(full.masked_fill(~fits, -1).argmax()) if bool(fits.any()) else opened
        if where == opened:
            groups.append([])
        groups[where].append(column)
        occupied[where] |= there[column]
        nonzeros[where] += counts[column]
        members[where] += 1
    return groups


def combine_columns(
    weight: Tensor, groups: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Pack the groups: in each row of a group the largest |w| stays.

    Returns:
        ``packed`` (R, G) with the weight's dtype; ``channel`` (R, G) int64, the column that it came
        from (−1, and packed 0, where the group has nothing in this row); ``mask`` (R, C) bool, True
        exactly where a non-zero stays. Of equal |w| the lower column goes.
    """
    _check_matrix(weight)
    rows, columns = weight.shape
    listed = [c for group in groups for c in group]
    if len(set(listed)) < len(listed) or any(not 0 <= c < columns for c in listed):
        raise ValueError(f"groups name columns 0 … {columns - 1}, each once at most; got {groups}")
    packed = weight.new_zeros(rows, len(groups))
    channel = torch.full(packed.shape, -1, device=weight.device)
    mask = torch.zeros_like(weight, dtype=torch.bool)
    for g, group in enumerate(groups):
        if not group:
            continue
        # of equal ones the first here, the higher, stays
        column = torch.tensor(sorted(group, reverse=True), device=weight.device)
        part = weight.detach()[:, column]  # (R, members)
        best = part.abs().argmax(1)
        value = part.gather(1, best[:, None])[:, 0]
        there = value != 0
        packed[:, g] = value
        channel[:, g] = torch.where(there, column[best], -1)
        mask[there.nonzero()[:, 0], column[best][there]] = True
    return packed, channel, mask


def utilisation(mask: Tensor, groups: Sequence[Sequence[int]]) -> float:
    """The share of the packed array's cells that hold a weight; without groups 0."""
    cells = mask.shape[0] * len(groups)
    return float(mask.sum()) / cells if cells else 0.0


def _check_matrix(weight: Tensor) -> None:
    if weight.ndim != 2:
        raise ValueError(f"weight must be a matrix, got {tuple(weight.shape)}: flatten(1) it first")
