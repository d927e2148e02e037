"""How many went: the mistake about rounding that explains all counts is named."""

from __future__ import annotations

import pytest

from course_lib.grading import Mistake
from course_lib.grading.claims.rounding import CUT_OFF, ROUNDINGS, expect_rounded

CASES = [(0.5, 9), (0.5, 11), (0.3, 14), (0.3, 16), (0.5, 13)]


def test_right_counts_pass() -> None:
    expect_rounded([round(share * n) for share, n in CASES], CASES, "rate", "weights went")


@pytest.mark.parametrize("said", ROUNDINGS)
def test_each_mistake_is_named(said: str) -> None:
    counts = [ROUNDINGS[said](*case) for case in CASES]
    with pytest.raises(Mistake) as mistake:
        expect_rounded(counts, CASES, "rate", "weights went")
    assert str(mistake.value).endswith(f": {said}")


def test_the_first_wrong_case_is_shown() -> None:
    with pytest.raises(Mistake, match=r"at rate 0.3, 3 of 14 survivors went \(0.3 · 14 = 4.2\)"):
        expect_rounded([4, 6, 3, 5, 6], CASES, "rate", "survivors went", {CUT_OFF: lambda s, n: 0})
