"""Means over seeds, with the interval that says how much so few seeds can claim."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit


def interval(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean over seeds and the half-width of its 95 % t-interval.

    Args:
        values: (seeds, ...); a NaN is a run that is missing, and is left out.

    Returns:
        Two arrays (...); the half-width is NaN where fewer than two runs are left.
    """
    values = np.asarray(plain(values), dtype=np.float64)
    there = ~np.isnan(values)
    n = there.sum(axis=0)
    mean = np.where(there, values, 0).sum(axis=0) / np.where(n, n, np.nan)
    squares = (np.where(there, values - mean, 0) ** 2).sum(axis=0)
    freedom = np.where(n > 1, n - 1, np.nan)
    return mean, stdtrit(freedom, 0.975) * np.sqrt(squares / freedom / np.where(n, n, np.nan))


def plain(values: Any) -> Any:
    """A torch tensor as a numpy array (bfloat16, which numpy lacks, as float32);
    anything else as it is.
    """
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values.float().numpy() if str(values.dtype) == "torch.bfloat16" else values.numpy()
