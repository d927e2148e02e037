"""The autograder is software under test: wrong answers lose their question and are told
why, right ones in other styles do not.

All are marked in this process, on the questions that their code can reach; two of each
question once more as ``course grade`` marks them, in a warm worker and on everything.
``ANSWERS=sample`` takes the same few of each question, ``ANSWERS=rest`` all others.
``SEEDS=20`` marks each with twenty seeds, and the points must be the same with all.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from bank import LABS, Answer, answers, sample

from course_lib.grading import Submission, sandbox
from course_lib.grading.batch.collect import read_single_submission
from course_lib.grading.claims.student import InProcess
from course_lib.grading.marking.lab import Task
from course_lib.grading.marking.marker import Marker, Outcome
from course_lib.grading.sandbox import Seconds, Worker
from course_lib.student_code import cells
from course_lib.student_code.cells import parse
from course_lib.student_code.watch import unwatched
from solutions import ROOT, solved

WHICH = os.environ.get("ANSWERS", "all")
SEEDS = int(os.environ.get("SEEDS", "1"))


def chosen(
    every: Callable[[str], Iterable[Answer]], some: Callable[[str], Iterable[Answer]]
) -> list[Answer]:
    """Of every lab: all, the sample, or all but that."""
    found = []
    for lab in LABS:
        sampled = list(some(lab))
        found += (
            sampled
            if WHICH == "sample"
            else [a for a in every(lab) if WHICH == "all" or a not in sampled]
        )
    return found


def in_a_worker(lab: str, each: int = 2) -> list[Answer]:
    return [answer for answer in sample(lab, each) if answer.code]


ANSWERS = chosen(answers, sample)
IN_A_WORKER = chosen(in_a_worker, lambda lab: in_a_worker(lab, 1)[::6])


@functools.cache
def uses(lab: str) -> dict[str, set[str]]:
    """The names that the solution binds, each with those that its definition reads."""
    return bound(solved(lab).cells)


def bound(sources: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for statement in parse(sources, []):
        if not isinstance(statement.node, ast.Import | ast.ImportFrom):
            for name in statement.binds:
                found.setdefault(name, set()).update(statement.reads)
    return found


def reached(answer: Answer) -> set[str]:
    """The questions whose answers in the solution use a name that this one binds,
    directly or through others, or that need one of these by their heading."""
    reach = {name for s in parse([answer.code], []) for name in s.binds} | {
        name for name, _ in answer.functions
    }
    while more := {name for name, used in uses(answer.lab).items() if used & reach} - reach:
        reach |= more
    known = solved(answer.lab).lab.known
    touched = {q for q, exercise in known.questions.items() if reach & set(exercise.names)}
    return touched | {q for q, needs in solved(answer.lab).needs.items() if touched & needs}


def marked(answer: Answer, more: int = 0) -> list[Outcome]:
    """Marked in this process, with the seed that the lab's tests name, or a number of seeds
    after it.
    """
    lab = solved(answer.lab).lab
    sources = [*solved(answer.lab).cells, *([answer.code] if answer.code else [])]
    names: dict[str, Any] = cells.run(sources, lab.known.graded).namespace
    names |= {name: unwatched(function) for name, function in answer.functions}
    questions = reached(answer)
    with InProcess(names) as transport:
        marker = Marker(
            lambda: Submission(transport, solved(answer.lab).files),
            lab.known,
            lab.spec.seed + more,
        )
        return marker.mark([t for t in lab.tests if t.question in questions])


def expect(answer: Answer, outcomes: list[Outcome]) -> None:
    """The verdict that the bank asks for."""
    told: dict[str, list[str]] = {}
    for outcome in outcomes:
        if not outcome.passed:
            told.setdefault(outcome.question, []).append(outcome.message)
    if answer.says is None:
        assert not told
        return
    assert answer.question in told, "a wrong answer that keeps its points"
    assert told.keys() <= {answer.question} | answer.also, told
    assert any(answer.says in message for message in told[answer.question]), (
        f"no failing claim says {answer.says!r}: {told[answer.question]}"
    )
    if answer.holds:
        there = [o for o in outcomes if o.question == answer.question and answer.holds in o.claim]
        assert there, f"no claim of {answer.question} says {answer.holds!r}"
        assert all(outcome.passed for outcome in there)


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_an_answer(answer: Answer, request: pytest.FixtureRequest) -> None:
    if answer.worker:
        test_an_answer_in_a_worker(answer, request.getfixturevalue("worker"))
        return
    points = {}
    for more in range(SEEDS):
        outcomes = marked(answer, more)
        expect(answer, outcomes)
        points[more] = {o.claim: o.earned for o in outcomes}
    assert all(earned == points[0] for earned in points.values()), points


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    worker = Worker(sandbox.best(), Seconds(reply=20.0))
    yield worker
    worker.stop()


@pytest.mark.parametrize("answer", IN_A_WORKER, ids=str)
def test_an_answer_in_a_worker(answer: Answer, worker: Worker) -> None:
    solution = solved(answer.lab)
    task = Task("x", (*solution.cells, answer.code), files=tuple(solution.files.items()))
    expect(answer, list(solution.lab.mark(task, worker).outcomes))


@pytest.mark.parametrize("lab", LABS)
def test_the_solution_has_full_marks_and_the_handout_none(lab: str, worker: Worker) -> None:
    solution = solved(lab)
    outcomes = solution.lab.mark(
        Task("x", tuple(solution.cells), files=tuple(solution.files.items())), worker
    ).outcomes
    assert sum(o.earned for o in outcomes) == sum(t.points for t in solution.lab.tests)
    handout = read_single_submission(next((ROOT / "labs").glob(f"{lab}_*.ipynb")), lab)
    assert (
        sum(o.earned for o in solution.lab.mark(Task("x", tuple(handout.cells)), worker).outcomes)
        == 0
    )


@pytest.mark.parametrize("lab", LABS)
def test_every_exercise_has_wrong_answers_and_two_other_right_ones(lab: str) -> None:
    known = solved(lab).lab.known
    functions = {
        q for q, exercise in known.questions.items() if solved(lab).definition(set(exercise.names))
    }
    for question in functions:
        kinds = [a.says is None for a in answers(lab) if a.question == question]
        assert kinds.count(False) >= 1, f"{question} has no wrong answer"
        assert kinds.count(True) >= 2, (
            f"{question} has {kinds.count(True)} right answers in another style"
        )
