"""Self-check in the notebook, and isolated grading of submissions.

Labs use :func:`check` and :func:`skip`; test modules use :func:`question`, :func:`fail`
and the ``expect_…`` helpers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.grading.claims.draw import Draw
    from course_lib.grading.claims.expect import (
        Mistake,
        ask,
        describe,
        expect_close,
        expect_equal,
        expect_gradient,
        expect_int,
        expect_keys,
        expect_length,
        expect_number,
        expect_raises,
        expect_tensor,
        fail,
        unchanged,
    )
    from course_lib.grading.claims.question import question
    from course_lib.grading.claims.student import Proxy, StudentError, Submission
    from course_lib.grading.marking.check import check, skip

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
    "expect_gradient",
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

_WHERE = ("claims.draw", "claims.expect", "claims.question", "claims.student", "marking.check")


def __getattr__(name: str) -> Any:
    """Imported when asked for: they load torch, and a command that says what is wrong with a
    table of marks does not wait for it.
    """
    if name in __all__:
        for module in map(import_module, (f"{__name__}.{where}" for where in _WHERE)):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
