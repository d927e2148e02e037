"""Sentences whose numbers come from a run: means with intervals, differences that are
shown or not, predictions beside results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from course_lib.intervals import interval


def say(text: str) -> None:
    """Print a text (Markdown) whose numbers come from this run."""
    from IPython.display import Markdown, display

    display(Markdown(text))


def you_wrote(prediction: object) -> str:
    """A prediction, to stand beside what came out; ``...`` where there is none."""
    return (
        "You had written nothing: a guess costs nothing."
        if prediction is ...
        else f"You had written: {prediction}."
    )


def pm(values: ArrayLike, digits: int = 1) -> str:
    """Mean ± half-width of the 95 % interval over seeds."""
    mean, half = interval(np.asarray(values))
    return f"{mean:z.{digits}f} ± {half:.{digits}f}"


def versus(
    ours: ArrayLike, theirs: ArrayLike, unit: str = "points", digits: int = 1, *, cell: bool = False
) -> str:
    """The difference of two methods, paired by seed, and whether the seeds can show it.

    Args:
        cell: of a table: the numbers alone, bold where they are shown.
    """
    mean, half = interval(np.asarray(ours) - np.asarray(theirs))
    if cell:
        numbers = f"{mean:+z.{digits}f} ± {half:.{digits}f}"
        return f"**{numbers}**" if abs(mean) > half else numbers
    verdict = "shown" if abs(mean) > half else "not shown: the interval contains 0"
    of = f" {unit}" if unit else ""
    return f"{mean:+z.{digits}f} ± {half:.{digits}f}{of} ({verdict})"


def ends(values: ArrayLike) -> tuple[float, float]:
    """The ends of the 95 % interval over seeds, cut to 0 and 100 as percentages are."""
    mean, half = interval(np.asarray(values))
    return max(float(mean - half), 0), min(float(mean + half), 100)
