"""Means over seeds and differences between methods, each with the interval that says how
much so few seeds can claim.

Results are long tables (pandas): one row per measurement, with a column ``seed``, a column
for the method, columns for the settings that were varied, and columns of measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

SEED = "seed"
SAME = 1e-9  # half of an interval of differences that are equal but for rounding


def interval(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean over seeds and the half-width of its 95 % t-interval.

    Args:
        values: (seeds, ...); a NaN is a run that is missing, and is left out.

    Returns:
        Two arrays (...); the half-width is NaN where fewer than two runs are left.
    """
    values = np.asarray(to_numpy(values), dtype=np.float64)
    there = ~np.isnan(values)
    n = there.sum(axis=0)
    mean = np.where(there, values, 0).sum(axis=0) / np.where(n, n, np.nan)
    squares = (np.where(there, values - mean, 0) ** 2).sum(axis=0)
    freedom = np.where(n > 1, n - 1, np.nan)
    return mean, stdtrit(freedom, 0.975) * np.sqrt(squares / freedom / np.where(n, n, np.nan))


def to_numpy(values: Any) -> Any:
    """A torch tensor as a numpy array (bfloat16, which numpy lacks, as float32);
    anything else as it is.
    """
    if not hasattr(values, "detach"):
        return values
    values = values.detach().cpu()
    return values.float().numpy() if str(values.dtype) == "torch.bfloat16" else values.numpy()


def per_seed(table: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """One row per group and seed: repeated draws of one seed are averaged first, since an
    interval over seeds counts seeds and not draws.

    Args:
        value: the column that is averaged.
        by: the columns that name a group, in which the order of first appearance is kept.

    Returns:
        Columns ``by``, ``seed`` and ``value``.

    Raises:
        ValueError: if a column is missing.
    """
    require_columns(table, [*by, SEED, value])
    keys = [*by, SEED]
    return table.groupby(keys, sort=False, dropna=False, as_index=False)[value].mean()


def summarise(table: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Mean of each group over seeds, with half of the width of its 95 % t-interval.

    Args:
        table: a long table with a column ``seed``.
        value: the column of measurements. by: the columns that name a group.

    Returns:
        Columns ``by``, ``mean``, ``half`` (NaN for a single seed) and ``seeds``.

    Raises:
        ValueError: if a column is missing.
    """
    rows = []
    for key, values in _groups(per_seed(table, value, by), by, value):
        mean, half = interval(values)
        rows.append((*key, float(mean), float(half), int((~np.isnan(values)).sum())))
    return pd.DataFrame(rows, columns=[*by, "mean", "half", "seeds"])


def compare(
    table: pd.DataFrame,
    value: str,
    by: str = "method",
    against: str = "random",
    within: Sequence[str] = (),
) -> pd.DataFrame:
    """Each method minus a baseline, paired by seed.

    Args:
        table: a long table with a column ``seed``.
        value: the column of measurements. by: the column of methods.
        against: the baseline, one of the entries of ``by``.
        within: the settings at which methods are compared, such as ``["sparsity"]``.

    Returns:
        Columns ``within``, ``by``, ``difference`` (mean over pairs), ``half`` (half of the
        width of the 95 % paired t-interval), ``pairs``, and ``distinguishable``: the
        interval excludes 0, and its pairs are not all equal.

    Raises:
        ValueError: if a column is missing or the baseline is not in the table.
    """
    pairs = differences(table, value, by, against, within)
    pairs = pairs[pairs[by] != against]
    found = summarise(pairs, value, [*within, by])
    found = found.rename(columns={"mean": "difference", "seeds": "pairs"})
    wide = (found["difference"].abs() > found["half"]) & (found["half"] > SAME)
    return found.assign(distinguishable=wide)


def differences(
    table: pd.DataFrame,
    value: str,
    by: str = "method",
    against: str = "random",
    within: Sequence[str] = (),
) -> pd.DataFrame:
    """What :func:`compare` compares: of each seed, a method minus the baseline, whose own
    difference is 0. ``plots.curves`` draws it.

    Args and raises: as for :func:`compare`.

    Returns:
        Columns ``within``, ``by``, ``seed``, and the difference as ``value``.
    """
    require_columns(table, [*within, by, SEED, value])
    if against not in set(table[by]):
        raise ValueError(
            f"against is the baseline and must be one of the methods in the column {by!r}"
            f" ({', '.join(map(str, table[by].unique()))}); got {against!r}"
        )
    means = per_seed(table, value, [*within, by])
    baseline = means[means[by] == against].drop(columns=by).rename(columns={value: "_base"})
    pairs = means.merge(baseline, on=[*within, SEED], how="left")
    pairs[value] -= pairs.pop("_base")
    return pairs


def require_columns(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raises ValueError, naming the columns there are, if one of ``columns`` is missing."""
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ValueError(
            f"the table has no column {', '.join(map(repr, missing))}: it has"
            f" {', '.join(map(repr, table.columns))}"
        )


def _groups(table: pd.DataFrame, by: Sequence[str], value: str) -> list[tuple[Any, np.ndarray]]:
    if not by:
        return [((), table[value].to_numpy(float))]
    grouped = table.groupby(list(by), sort=False, dropna=False)
    return [
        (key if isinstance(key, tuple) else (key,), part[value].to_numpy(float))
        for key, part in grouped
    ]
