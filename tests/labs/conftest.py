"""Fixtures of the autograder: pytest runs it against the solutions, the grader against submissions."""

from __future__ import annotations

from pathlib import Path

import jupytext
import pytest

from course_lib.grading import Draw, Submission
from course_lib.grading.reference import load
from course_lib.grading.submission import InProcess
from course_lib.worker import cells

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def solution(request: pytest.FixtureRequest) -> dict:
    """The names that a lab's solution defines, as the grader would define them."""
    lab = request.module.__name__.rpartition("test_")[2]
    source = next((ROOT / "solutions").glob(f"{lab}_*.py"))
    sources = [c.source for c in jupytext.read(source).cells if c.cell_type == "code"]
    defined = cells.run(sources, load(lab).graded)
    assert not defined.problems, defined.problems
    return defined.namespace


@pytest.fixture
def submission(solution: dict, request: pytest.FixtureRequest, draw: Draw) -> Submission:
    """The solution as a submission."""
    test = request.function.course_test
    submission = Submission(InProcess(solution))
    submission.begin(draw.seed, load(request.module.__name__.rpartition("test_")[2]).asked(test.question).forbidden)
    return submission


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> Draw:
    """Random inputs, the same in every run."""
    return Draw("pytest", request.node.name)
