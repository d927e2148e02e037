"""Bug hunts: ``find_bug(f)`` raises AssertionError for wrong versions of one of a lab's
functions, and lets right ones pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.grading.claims.draw import Draw
from course_lib.grading.claims.expect import describe, fail
from course_lib.grading.claims.student import Proxy, StudentError, Submission

Version = Callable[..., Any]


def expect_verdicts(
    submission: Submission,
    draw: Draw,
    name: str,
    right: dict[str, Version],
    wrong: dict[str, Version],
    promise: str,
) -> None:
    """find_bug passes every right version and raises AssertionError for every wrong
    one.

    They are shown in an order drawn anew: with the right ones always first, counting
    the calls would be enough.

    Args:
        name: of the function they are versions of.
        right: "one that loops" -> function. wrong: "forgets the absolute
            value" -> function.
        promise: what the contract says and to which arguments, "4.6 promises of …": to
            ask for more is to accuse the innocent.
    """
    versions = list((right | wrong).items())
    order = draw.permutation(len(versions)).tolist()
    made_of_it = {versions[i][0]: _verdict(submission, name, versions[i][1]) for i in order}
    for what in right:
        outcome, said = made_of_it[what]
        if outcome == "error":
            fail(
                f"find_bug stumbled ({said}) over a right version ({what}): it should return,"
                f" whatever {promise}"
            )
        if outcome != "passed":
            fail(
                f"find_bug accused a right version ({what}): {said}. Does it ask for more than"
                f" {promise}?"
            )
    for what in wrong:
        outcome, said = made_of_it[what]
        if outcome == "error":
            fail(
                f"for a version that {what}, find_bug stumbled ({said}) where it should say so by"
                " an AssertionError"
            )
        if outcome == "passed":
            hint = (
                f" (it returned {said}: find_bug speaks by raising, not by returning)"
                if said
                else ""
            )
            fail(
                f"find_bug let a wrong version pass, one that {what}{hint}: which input would show"
                " it, or which look at the result?"
            )


def _verdict(submission: Submission, name: str, version: Version) -> tuple[str, str]:
    """What find_bug makes of a version: ("passed" or "assertion" or "error", what was
    said).
    """

    def f(*args: Any, **kwargs: Any) -> Any:
        try:
            return version(*args, **kwargs)
        except Exception as error:  # whatever it was called with: bad arguments raise ValueError
            raise ValueError(f"{type(error).__name__}: {error}") from None

    try:
        returned = submission.find_bug(Proxy(f, name))
    except StudentError as error:
        if error.kind != "raised" or error.unwritten:
            raise
        said = f"{error.type}: {error.message}" if error.message else error.type
        said += f", {error.where}: {error.text}" if error.where and error.text else ""
        return ("assertion" if "AssertionError" in error.bases else "error"), said
    return "passed", "" if returned is None else describe(returned)
