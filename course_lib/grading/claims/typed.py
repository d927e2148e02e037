"""Answers that are typed in: one of some letters, or a number read off one's own
run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from course_lib.grading.claims.expect import describe, expect_number, fail
from course_lib.grading.claims.student import StudentError, Submission

LETTERS = "ABCDEFGH"


def expect_choice(
    submission: Submission, name: str, options: int, misread: Mapping[int, str]
) -> None:
    """The value ``name`` (``answer_1_8a``) is the letter of an option that is not
    misread.

    Args:
        options: how many there are.
        misread: position among the options in the lab's source, from 0 -> why it does
            not fit.
    """
    answer = _answered(submission, name)
    letters = LETTERS[:options]
    letter = answer.strip().upper() if isinstance(answer, str) else answer
    if not isinstance(letter, str) or len(letter) != 1 or letter not in letters:
        fail(
            f"the answer is one of the letters {', '.join(letters)}, in quotes; it is"
            f" {describe(answer)}"
        )
    if (chosen := letters.index(letter)) in misread:
        fail(f"{letter} does not fit: {misread[chosen]}")


def expect_typed(
    submission: Submission,
    name: str,
    within: tuple[float, float] = (-math.inf, math.inf),
    form: str = "",
) -> float:
    """The value ``name``, if it is a number ``within`` these ends; else ``form`` goes
    on where "7 is …" begins: "no share in %".
    """
    typed = expect_number(_answered(submission, name), "the answer")
    if not within[0] <= typed <= within[1]:
        fail(f"{typed:g} is {form}")
    return typed


def expect_figure(
    typed: float,
    right: tuple[float, float],
    what: str,
    misread: Iterable[tuple[float, float, str]],
    hint: str,
) -> None:
    """A figure that was read off one's own run lies between these ends.

    Args:
        what: the figure is, to go on where "7 is far from …" begins.
        misread: from, to, what has such values and was probably read instead: the first
            that fits is asked about.
        hint: where to look, if none fits.
    """
    if not right[0] <= typed <= right[1]:
        instead = next(
            (f"Is it {other}?" for low, high, other in misread if low <= typed <= high), hint
        )
        fail(f"{typed:g} is far from {what}. {instead}")


def student_of(submission: Submission) -> str:
    """What a notebook says in ``STUDENT`` of who works on it; "" where it says nothing."""
    try:
        value = submission.value("STUDENT")
    except StudentError:  # a notebook without that line
        return ""
    return value if isinstance(value, str) else ""


def _answered(submission: Submission, name: str) -> Any:
    answer = submission.value(name)
    if answer is ... or answer is None:
        fail("not answered yet")
    return answer
