"""Bug hunts: what is made of a find_bug, and that it sees right and wrong versions in
no order it could count on.
"""

from __future__ import annotations

import pytest

from course_lib.grading import Draw, Mistake, StudentError, Submission
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.student import InProcess

RIGHT = {"the usual": lambda x: 2 * x, "one that adds": lambda x: x + x}
WRONG = {"squares": lambda x: x * x, "does nothing": lambda x: x}


def hunt(source: str, seed: int = 0) -> dict:
    names: dict = {"seen": []}
    exec(source, names)
    submission = Submission(InProcess(names))
    submission.begin(0)
    expect_verdicts(submission, Draw(seed), "double", RIGHT, WRONG, "0.0 promises of whole numbers")
    return names


def test_a_good_test_passes_and_cannot_count_the_calls() -> None:
    source = "def find_bug(f):\n    seen.append(f(1) + f(3) / 100)\n    assert [f(0), f(1), f(3)] == [0, 2, 6]"
    assert len({tuple(hunt(source, seed)["seen"]) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "assert False, 'so there'",
            "accused a right version .*so there.*more than 0.0 promises of whole numbers",
        ),
        ("assert f('text') is None", "accused a right version"),
        ("assert [][f(1)]", "stumbled .*IndexError.* over a right version"),
        ("pass", "let a wrong version pass, one that squares"),
        ("return f(3) == 6", "speaks by raising, not by returning"),
        ("assert f(2) == 4", "let a wrong version pass, one that squares"),
        (
            "if f(3) != 6: raise ValueError('wrong')",
            "a version that squares, find_bug stumbled .*ValueError: wrong",
        ),
    ],
)
def test_a_bad_test_is_told_why(body: str, said: str) -> None:
    with pytest.raises(Mistake, match=said):
        hunt(f"def find_bug(f):\n    {body}")


def test_what_a_version_raises_is_a_value_error_there() -> None:
    source = "def find_bug(f):\n    try:\n        f(None)\n    except ValueError as error:\n        seen.append(str(error))\n    assert f(3) == 6"
    assert all("TypeError" in said for said in hunt(source)["seen"])


def test_an_unwritten_hunt_is_no_verdict() -> None:
    with pytest.raises(StudentError):
        hunt("def find_bug(f):\n    raise NotImplementedError('1.8 find_bug: write this')")
