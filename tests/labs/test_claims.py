"""Every claim of every lab holds of its solution; and a lab is worth what it says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from course_lib.grading import Draw, Submission
from course_lib.grading.claims.question import Test
from course_lib.grading.claims.student import InProcess
from course_lib.student_code import cells
from solutions import LABS, ROOT, solved

CLAIMS = [(lab, test) for lab in LABS for test in solved(lab).lab.tests]


@pytest.fixture(scope="module")
def names() -> dict[str, dict[str, Any]]:
    """By lab, what its solution defines, as the grader would define it."""
    defined = {lab: cells.run(solved(lab).cells, solved(lab).lab.known.graded) for lab in LABS}
    assert not [problem for d in defined.values() for problem in d.problems]
    return {lab: d.namespace for lab, d in defined.items()}


@pytest.mark.parametrize(
    ("lab", "test"), CLAIMS, ids=lambda p: p if isinstance(p, str) else f"{p.question}-{p.name}"
)
def test_a_claim_holds_of_the_solution(
    lab: str, test: Test, names: dict[str, dict[str, Any]]
) -> None:
    with InProcess(names[lab]) as transport:
        submission = Submission(transport, solved(lab).files)
        draw = Draw("pytest", test.name)
        submission.begin(draw.seed, solved(lab).lab.known.exercise(test.question).forbidden)
        test.run(submission, draw)


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_says_at_its_top_how_many_points_its_claims_add_up_to(lab: str) -> None:
    (path,) = (ROOT / "solutions").glob(f"{lab}_*.py")
    top = path.read_text(encoding="utf-8").partition("# ### ")[0]
    (said,) = re.findall(r"(\d+) points[;.]", top)
    bonus = sum(map(int, re.findall(r"(\d+) bonus points?", top)))
    by_a_person = sum(asked.by_hand for asked in solved(lab).lab.known.questions.values())
    tests = solved(lab).lab.tests
    assert sum(t.points for t in tests if not t.optional) + by_a_person == int(said)
    assert sum(t.points for t in tests if t.optional) == bonus


@pytest.mark.parametrize("lab", LABS)
def test_checks_of_arguments_are_worth_a_point_at_most_and_are_seen(lab: str) -> None:
    checks = [t for t in solved(lab).lab.tests if t.claim.startswith("arguments:")]
    assert sum(t.points for t in checks) <= 1
    assert all(t.visible for t in checks)
