"""Sentences whose numbers come from a run: means with intervals, and differences that are
statistically distinguishable from 0 or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from course_lib.intervals import SAME, compare, interval
from course_lib.show.style import minus_sign


def say(text: str) -> None:
    """Print a text (Markdown) whose numbers come from this run."""
    from IPython.display import Markdown, display

    display(Markdown(text))


def pm(values: ArrayLike, digits: int = 1) -> str:
    """Mean ± half-width of the 95 % interval over seeds."""
    return pm_text(*interval(np.asarray(values)), digits)


def pm_text(mean: Any, half: Any, digits: int = 1, sign: bool = False) -> str:
    """ "3.2 ± 1.1", with a sign if asked for; the mean alone where it was measured once."""
    number = minus_sign(f"{mean:{'+' if sign else ''}z.{digits}f}")
    return number if np.isnan(half) else f"{number} ± {half:.{digits}f}"


def pm_cell(difference: Any, half: Any, digits: int = 1) -> str:
    """A difference in a cell of a table: bold where its interval excludes 0, but not where
    it is equal in all seeds: then it has no interval.
    """
    text = pm_text(difference, half, digits, sign=True)
    return f"**{text}**" if abs(difference) > half > SAME else text


def minus(
    table: pd.DataFrame,
    value: str,
    one: str,
    other: str,
    *,
    by: str = "method",
    unit: str = "points",
    digits: int = 1,
) -> str:
    """One method minus another, paired by seed: "+3.2 ± 1.1 points (statistically
    distinguishable)".

    Args:
        table: a long table with a column ``seed``; select the rows before.
        value: the column of measurements. by: the column of methods.
        unit: a word after the numbers, or "".

    Raises:
        ValueError: if a column is missing, or a method has no rows.
    """
    rows = table[table[by].isin([one, other])]
    if one not in set(rows[by]):
        raise ValueError(f"one: no row has {by} = {one!r}; there are {list(table[by].unique())}")
    (found,) = compare(rows, value, by, other).to_dict("records")
    return _with_verdict(found["difference"], found["half"], unit, digits)


def versus(
    ours: ArrayLike, theirs: ArrayLike, unit: str = "points", digits: int = 1, *, cell: bool = False
) -> str:
    """The difference of two methods, paired by seed, in the words of :func:`minus`.

    Args:
        cell: of a table: the numbers alone, as :func:`pm_cell` writes them.
    """
    mean, half = interval(np.asarray(ours) - np.asarray(theirs))
    return pm_cell(mean, half, digits) if cell else _with_verdict(mean, half, unit, digits)


def _with_verdict(mean: Any, half: Any, unit: str, digits: int) -> str:
    verdict = "statistically distinguishable" if abs(mean) > half else "not distinguishable"
    verdict = "equal in all seeds" if half <= SAME else "one run" if np.isnan(half) else verdict
    of = f" {unit}" if unit else ""
    return f"{pm_text(mean, half, digits, sign=True)}{of} ({verdict})"
