"""The autograder is software under test: believed-in wrong answers lose their question, right ones in other styles do not.

A mutant is a file in ``labNN/`` that redefines a graded name after the solution. Its first line says what must happen:

``# loses 1.4 · message: "each layer lost its own"``
    points of 1.4 go, nothing else, and a failure of 1.4 contains the words in quotes. ``# loses 1.1, also 1.4 · …`` where the lab
    declares that 1.4 rests on 1.1.
``# keeps 1.4``
    full marks.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import jupytext
import pytest

from course_lib.grading import Submission, claims
from course_lib.grading.mark import Marker, by_question
from course_lib.grading.reference import load
from course_lib.grading.workers import Worker

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HEADER = re.compile(
    r'# (?P<kind>loses|keeps) (?P<question>\d+\.\d+)(?:, also (?P<also>[\d., ]+?))?(?: · message: "(?P<message>.+)")?\s*$'
)
MUTANTS = sorted(HERE.glob("lab*/*.py"))


@functools.cache
def solution(lab: str) -> tuple[str, ...]:
    source = next((ROOT / "solutions").glob(f"{lab}_*.py"))
    return tuple(c.source for c in jupytext.read(source).cells if c.cell_type == "code")


@functools.cache
def tests(lab: str) -> list[claims.Test]:
    return claims.tests_in(claims.load_tests(ROOT / "tests" / "labs" / f"test_{lab}.py"))


def header(path: Path) -> re.Match[str]:
    first = path.read_text().splitlines()[0]
    match = HEADER.match(first)
    assert match, f"{path.name} begins with {first!r}: it should say what it loses or keeps"
    return match


@pytest.mark.parametrize("path", MUTANTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_mutant(path: Path, worker: Worker) -> None:
    said = header(path)
    lab, question = path.parent.name, said["question"]
    sessions = []

    def open() -> Submission:
        sessions.append(worker.open([*solution(lab), path.read_text()], load(lab).graded))
        assert not sessions[-1].problems, sessions[-1].problems
        return Submission(sessions[-1])

    try:
        outcomes = Marker(open, load(lab), seed=len(path.stem)).mark(tests(lab))
    finally:
        for session in sessions:
            session.close()
    lost = {q for q, group in by_question(outcomes).items() if not all(o.passed for o in group)}
    messages = {f"{o.question} {o.test}": o.message for o in outcomes if not o.passed}
    if said["kind"] == "keeps":
        assert not lost, messages
        return
    assert question in lost, "a wrong answer that keeps its points"
    also = set(re.findall(r"\d+\.\d+", said["also"] or ""))
    assert lost <= {question} | also, messages
    assert said["message"], "a wrong answer says which message it must get"
    assert any(said["message"] in o.message for o in outcomes if o.question == question and not o.passed), messages


@pytest.mark.parametrize("lab", sorted({p.parent.name for p in MUTANTS}))
def test_every_exercise_has_wrong_answers_and_two_other_right_ones(lab: str) -> None:
    functions = {q: a for q, a in load(lab).questions.items() if any(load(lab).function(n) for n in a.names)}
    for question in functions:
        kinds = [header(p)["kind"] for p in MUTANTS if p.parent.name == lab and header(p)["question"] == question]
        assert kinds.count("loses") >= 1, f"{question} has no mutant"
        assert kinds.count("keeps") >= 2, f"{question} has {kinds.count('keeps')} right answers in another style"
