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
    if bits is not None:
        check_count(bits, "bits", 1)
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
            if bits and i % group == 0:  # a new grid for every row
                low, step = value_grid(current(i, i + group), bits)
            value = column = current(i, i + 1)[:, 0]  # (R,)
            if bits:
                value = nearest_value(column, low, step, bits)
            new[:, i] = value.where(keep[:, i], 0)
            errors[:, i] = (column - new[:, i]) / d[i]
        w[:, b:] -= errors[:, a:b] @ u[a:b, b:]  # one large product for all later blocks
    return new.to(weight.dtype)


def value_grid(part: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """low and step, (outputs,) each, of the 2ᵇ values low + k · step from the smallest to the
    largest weight of each row of ``part`` (outputs, group), 0 included; step 1 where all are 0.
    """
    low = part.amin(1).clamp(max=0)
    step = (part.amax(1).clamp(min=0) - low) / (2**bits - 1)
    return low, step.where(step > 0, 1)


def nearest_value(column: Tensor, low: Tensor, step: Tensor, bits: int) -> Tensor:
    """The nearest of the 2ᵇ values to each weight, (outputs,)."""
    return low + step * ((column - low) / step).round().clamp(0, 2**bits - 1)


def bits_per_weight(bits: int, kept: float = 1.0, group: int | None = None) -> float:
    """What a matrix stores for each weight, kept or not: ``bits`` of every kept one, 1 where some
    are 0 (a bitmap; two for the place of each kept one of 2:4 are as many), and 32 of the grid that
    ``group`` weights share (None: there is none).
    """
    return kept * bits + (kept < 1) + (32 / group if group else 0)


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
