"""A matrix pruned or rounded column by column; the columns after it make up for each one's error.

With H = XXᵀ of the inputs, removing weight j of a row costs w_j² / [H⁻¹]_jj at least, and how the
row's other weights reach this minimum is known. Rows that work on the same column share one H⁻¹; of
it, one column after another needs the rows of U (H⁻¹ = UᵀU, Cholesky).

Source: Hassibi & Stork 1993, "Second Order Derivatives for Network Pruning: Optimal Brain Surgeon";
Frantar, Singh & Alistarh 2022, "Optimal Brain Compression"; Frantar et al. 2022, "GPTQ", section 3;
Frantar & Alistarh 2023, "SparseGPT", section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.checks import check_count, check_mask
from course_lib.pruning.weights.granularity import count_pruned
from course_lib.pruning.weights.nm import check_pattern
from course_lib.ranking import prune_lowest


def prune_and_round(
    weight: Tensor,
    gram: Tensor,
    sparsity: float = 0.0,
    *,
    pattern: tuple[int, int] = (1, 1),
    mask: Tensor | None = None,
    bits: int | None = None,
    group: int = 64,
    block: int = 128,
    damping: float = 0.01,
) -> Tensor:
    """The matrix pruned (SparseGPT), rounded (GPTQ), or both in one loop: (outputs, inputs), of the
    dtype of ``weight``, with exact zeros where it is pruned.

    Args:
        weight: (outputs, inputs). Weights that are 0 stay 0, whatever is asked for.
        gram: (inputs, inputs), Σ xxᵀ over the calibration tokens. With the identity, or 0, nothing
            is made up for: rounding is to the nearest, pruning by magnitude.
        sparsity: fraction to prune: of every ``block`` columns, when the loop comes to them, the
            smallest w² / U_jj²; of equal ones the first go.
        pattern: (n, m): of every m inputs of an output n are kept.
        mask: bool (outputs, inputs), True = kept, of any other method.
        bits: every kept weight becomes the nearest of 2ᵇ values, evenly spaced between the smallest
            and the largest weight (or 0) of ``group`` inputs of an output.
        damping: what is added to the diagonal of ``gram``, in parts of its mean: so it has an
            inverse, also with fewer tokens than inputs or with inputs that were always 0.

    Raises:
        ValueError: if shapes do not fit, or the damped ``gram`` is not finite or has no inverse.
    """
    rows, columns = weight.shape
    if gram.shape != (columns, columns):
        raise ValueError(f"gram must be (inputs, inputs), {columns} each; got {tuple(gram.shape)}")
    check_pattern(*pattern)
    n, m = pattern
    if columns % m:
        raise ValueError(f"m must divide the {columns} inputs, got {m}")
    top = 0 if bits is None else 2 ** check_count(bits, "bits", 1) - 1  # values are 0 … top steps
    w = weight.detach().to(torch.promote_types(weight.dtype, torch.float32), copy=True)  # (R, C)
    u = _inverse_factor(gram.to(w.device), damping).to(w.dtype)  # (C, C)
    d = u.diagonal()
    keep = (w != 0) & (True if mask is None else check_mask(mask, "mask", weight.shape))
    new, errors = torch.zeros_like(w), torch.zeros_like(w)

    def current(i: int, j: int) -> Tensor:
        """The columns i … j − 1 as all columns before i leave them; w has what is before a."""
        return w[:, i:j] - errors[:, a:i] @ u[a:i, i:j]

    def prune(part: Tensor, i: int, k: int, dim: int | None) -> None:
        at = slice(i, i + part.shape[1])
        score = (part / d[at]).square().masked_fill(~keep[:, at], -1)
        keep[:, at] &= prune_lowest(score, k, dim, "weight")

    for a in range(0, columns, block):
        b = min(a + block, columns)
        k = count_pruned(sparsity, rows * b) - count_pruned(sparsity, rows * a)
        prune(w[:, a:b], a, k, None)
        for i in range(a, b):
            if n < m and i % m == 0:
                prune(current(i, i + m), i, m - n, 1)
            if top and i % group == 0:  # a new grid for every row
                ahead = current(i, i + group)
                low = ahead.amin(1).clamp(max=0)  # (R,)
                step = (ahead.amax(1).clamp(min=0) - low) / top
                step = step.where(step > 0, 1)
            value = column = current(i, i + 1)[:, 0]  # (R,)
            if top:
                value = low + step * ((column - low) / step).round().clamp(0, top)
            new[:, i] = value.where(keep[:, i], 0)
            errors[:, i] = (column - new[:, i]) / d[i]
        w[:, b:] -= errors[:, a:b] @ u[a:b, b:]  # one large product for all later blocks
    return new.to(weight.dtype)


def _inverse_factor(gram: Tensor, damping: float) -> Tensor:
    """U (C, C), upper triangular, where UᵀU is the inverse of the damped ``gram``."""
    h = gram.detach().to(torch.float64, copy=True)
    dead, mean = h.diagonal() == 0, float(h.diagonal().mean()) or 1.0
    h.diagonal().add_(damping * mean)
    h.diagonal()[dead] = max(damping, 1e-6) * mean
    factor, failed = torch.linalg.cholesky_ex(h)
    if int(failed) or not bool(h.isfinite().all()):
        raise ValueError(f"gram is not finite, or needs more damping than {damping} for an inverse")
    return torch.linalg.cholesky(torch.cholesky_inverse(factor), upper=True)
