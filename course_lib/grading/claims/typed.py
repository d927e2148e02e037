"""Answers that are typed in: one of some letters, or a number read off one's own run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.grading.claims.expect import describe, expect_number, fail
from course_lib.grading.claims.student import Submission


def expect_letter(submission: Submission, name: str, misread: Mapping[str, str]) -> None:
    """The value ``name`` is one of the letters A to D (small ones, too), and none of ``misread``: letter -> why it does not fit."""
    answer = _answered(submission, name)
    letter = answer.strip().upper() if isinstance(answer, str) else answer
    if letter not in ("A", "B", "C", "D"):
        fail(f'the answer is one of the letters "A", "B", "C", "D"; it is {describe(answer)}')
    if letter in misread:
        fail(f"{letter} does not fit: {misread[letter]}")


def expect_typed(submission: Submission, name: str) -> float:
    """The value ``name``, if it is a number."""
    return expect_number(_answered(submission, name), "the answer")


def _answered(submission: Submission, name: str) -> Any:
    answer = submission.value(name)
    if answer is ...:
        fail("not answered yet")
    return answer
