"""N:M sparsity: of every m neighbours exactly n stay, so that hardware knows where each
block begins.

Between unstructured (any n of the whole tensor) and structured (whole filters). 2:4 is
what NVIDIA's GPUs of compute capability 8.0 and later multiply with in their tensor
cores; how it is stored is in :mod:`course_lib.cost.block_formats`.

Source: Mishra et al. 2021, "Accelerating Sparse Deep Neural Networks", section 3.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from course_lib.checks import check_numbers
from course_lib.models.layouts import layout_of, note_rule
from course_lib.pruning.weights.masks import Masks


def nm_mask(score: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """In every block of m neighbours along ``dim`` exactly the n largest |score| stay.

    Args:
        score: a weight, or a score of its shape; any number of dimensions ≥ 1. Of equal
            ones that with the lower index goes first.
        n: how many stay. m: neighbours in a block: indices km … km + m − 1, all other
            indices the same.
        dim: along which they are neighbours; negative from the end. 1 are the inputs of
            a linear layer, or a convolution's channels.

    Returns:
        Bool like ``score``, True = kept.

    Raises:
        ValueError: if n is not in 1 … m, m does not divide the size, or a score is NaN.
    """
    size = score.shape[dim]
    check_pattern(n, m)
    if size % m:
        raise ValueError(
            f"blocks of {m} do not fit {size} entries along dimension {dim}: pad them, or choose"
            " another m"
        )
    check_numbers(score)
    blocks = score.detach().abs().movedim(dim, -1)  # (…, size)
    shape = blocks.shape
    blocks = blocks.reshape(-1, m)  # (blocks, m)
    return (_ranks(blocks) >= m - n).reshape(shape).movedim(-1, dim).contiguous()


def _ranks(blocks: Tensor) -> Tensor:
    """(K, m) -> (K, m): how many of its block go before each, the smaller ones and
    equal ones of lower index.
    """
    m = blocks.shape[1]
    if m > 16:
        return blocks.argsort(dim=1, stable=True).argsort(dim=1)
    # (m, K): for short blocks comparing all pairs is faster than to sort each
    places = blocks.T.contiguous()
    ranks = torch.zeros(places.shape, dtype=torch.uint8, device=blocks.device)
    for later in range(m):
        for earlier in range(later):
            goes = places[earlier] <= places[later]
            ranks[later] += goes
            ranks[earlier] += ~goes
    return ranks.T


def nm_masks(
    scores: Mapping[str, Tensor], n: int, m: int, dim: int = 1, skip: bool = True
) -> Masks:
    """:func:`nm_mask` of every layer.

    Args:
        scores: (outputs, inputs, …) each. Those that this package makes of ``prunable``
            weights carry the layout of their layer (:mod:`course_lib.models.layouts`):
            for GPT-2's Conv1D, transposed convolutions and fused experts, too,
            ``dim`` 1 are the inputs.
        skip: a layer whose ``dim`` m does not divide stays whole (as the first
            convolution, of one channel); else ValueError.
    """
    masks = {}
    for name, score in scores.items():
        layout = layout_of(score)
        score = layout.upright(score)
        whole = skip and (
            score.ndim <= (dim if dim >= 0 else -dim - 1) or score.shape[dim] % m != 0
        )
        mask = torch.ones_like(score, dtype=torch.bool) if whole else nm_mask(score, n, m, dim)
        masks[name] = note_rule(layout.back(mask), layout)
    return masks


def check_pattern(n: int, m: int) -> None:
    """Raises ValueError if n of m is no pattern."""
    if not 1 <= n <= m:
        raise ValueError(
            f"of every m = {m} neighbours n = {n} are to stay: n is at least 1 and at most m"
        )
