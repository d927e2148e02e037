"""N:M sparsity: of every m neighbours exactly n stay, so that hardware knows where each block
begins.

Between unstructured (any n of the whole tensor) and structured (whole filters). 2:4 is what
NVIDIA's GPUs of compute capability 8.0 and later multiply with in their tensor cores; how it is
stored is in :mod:`course_lib.cost.block_formats`.

Source: Mishra et al. 2021, "Accelerating Sparse Deep Neural Networks", section 3.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from course_lib.pruning.weights.granularity import by_rows
from course_lib.pruning.weights.masks import Masks
from course_lib.ranking import prune_lowest


def nm_mask(score: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """In every block of m neighbours along ``dim`` exactly the n largest |score| stay, of equal
    ones those with the higher index: bool like ``score``, True = kept.

    A block are indices km … km + m − 1 of ``dim``, all other indices the same; m divides its size.
    ``dim`` is negative from the end; 1 are the inputs of a linear layer, or a convolution's
    channels.
    """
    check_pattern(n, m)
    if (size := score.shape[dim]) % m:
        raise ValueError(f"m must divide the {size} entries of dim {dim}, got {m}: pad them")
    blocks = score.detach().abs().movedim(dim, -1)  # (…, size)
    kept = prune_lowest(blocks.reshape(-1, m), m - n, dim=1)  # (blocks, m)
    return kept.reshape(blocks.shape).movedim(-1, dim).contiguous()


def nm_masks(scores: Mapping[str, Tensor], n: int, m: int, dim: int = 1) -> Masks:
    """:func:`nm_mask` of every layer. One whose ``dim`` m does not divide stays whole (as the first
    convolution, of one channel).

    Scores are (outputs, inputs, …). Those that this package makes of ``prunable`` weights carry the
    layout of their layer (:mod:`course_lib.models.layouts`): for GPT-2's Conv1D, transposed
    convolutions and fused experts, too, ``dim`` 1 are the inputs.
    """

    def rule(score: Tensor) -> Tensor:
        if score.ndim <= (dim if dim >= 0 else -dim - 1) or score.shape[dim] % m:
            return torch.ones_like(score, dtype=torch.bool)
        return nm_mask(score, n, m, dim)

    return {name: by_rows(score, rule) for name, score in scores.items()}


def check_pattern(n: int, m: int) -> None:
    """Raises ValueError if n of m is no pattern."""
    if not 1 <= n <= m:
        raise ValueError(f"n of every m stay, at least 1 and at most m; got n = {n}, m = {m}")
