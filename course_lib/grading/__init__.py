"""Self-check in the notebook, and isolated grading of submissions.

Labs use :func:`check` and :func:`skip`; test modules use :func:`question`, :func:`fail` and the ``expect_…`` helpers.
"""

from course_lib.grading.claims import (
    Mistake,
    ask,
    describe,
    expect_close,
    expect_equal,
    expect_int,
    expect_keys,
    expect_length,
    expect_number,
    expect_raises,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.draw import Draw
from course_lib.grading.notebook import check, skip
from course_lib.grading.submission import Proxy, StudentError, Submission

__all__ = [
    "Draw",
    "Mistake",
    "Proxy",
    "StudentError",
    "Submission",
    "ask",
    "check",
    "describe",
    "expect_close",
    "expect_equal",
    "expect_int",
    "expect_keys",
    "expect_length",
    "expect_number",
    "expect_raises",
    "expect_tensor",
    "fail",
    "question",
    "skip",
    "unchanged",
]
