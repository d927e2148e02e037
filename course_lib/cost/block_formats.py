"""N:M sparsity as it is stored: n values of every block of m, and for each its place in
the block.

The size depends on the shape alone, and every block begins where arithmetic says: no
row pointers, no search. As everywhere in :mod:`course_lib.cost.encodings` −0.0 is a
zero, and NaN and the infinities are values. What does not fit together raises
ValueError.

Source: Mishra et al. 2021, "Accelerating Sparse Deep Neural Networks", section 3.1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.cost.encodings import index_width
from course_lib.cost.formulas import nonzero_macs
from course_lib.pruning.weights.nm import check_pattern


def nm_compress(weight: Tensor, n: int, m: int) -> tuple[Tensor, Tensor]:
    """Store a matrix of which every block of m neighbours in a row has at most n
    non-zeros.

    Args:
        weight: (R, C), C a multiple of m.

    Returns:
        ``values`` (R, C·n/m) with the matrix's dtype, and ``index`` of the same shape,
        int64: the place of each *in its block*, 0 … m − 1, rising in a block. A block
        with fewer non-zeros is filled up with the lowest of its other places and their
        zeros.
    """
    blocks = weight.detach().reshape(len(weight), _count(weight.shape[1], n, m), m)
    present = blocks != 0  # NaN, too
    counts = present.sum(-1)  # (R, blocks)
    if (too_many := (counts > n).nonzero()).numel():
        row, block = too_many[0].tolist()
        raise ValueError(
            f"row {row} has {int(counts[row, block])} non-zeros in columns {block * m} to"
            f" {block * m + m - 1}, and of a block {n}:{m} stores {n}: prune the matrix first"
            " (nm_mask)"
        )
    # non-zeros first, then zeros, each by place; of these the first n, by place again
    index = (~present).to(torch.int8).argsort(dim=-1, stable=True)[..., :n].sort(dim=-1).values
    values = blocks.gather(-1, index)
    return values.flatten(1), index.flatten(1)


def nm_bits(rows: int, columns: int, n: int, m: int, bits: int = 32) -> int:
    """Bits to store a matrix: n values and n places of ⌈log₂ m⌉ bits for each block."""
    return rows * _count(columns, n, m) * n * (bits + index_width(m))


def joint_products(x: Tensor, weight: Tensor) -> int:
    """How many products x[b, c]·weight[r, c] have both factors other than 0, exactly.

    Args:
        x: (…, C). weight: (R, C).
    """
    return nonzero_macs(weight, x.reshape(-1, x.shape[-1]))


def _count(columns: int, n: int, m: int) -> int:
    """Blocks in a row."""
    check_pattern(n, m)
    if columns % m:
        raise ValueError(f"blocks of {m} do not fit {columns} columns")
    return columns // m
