"""The autograder is software under test: believed-in wrong answers lose their question, right ones in other styles do not.

A wrong or right answer is a file in ``labNN/`` here. It is handed in after the solution and redefines a graded name. Its first line
says what must happen:

``# loses 1.4 · message: "each layer lost its own"``
    points of 1.4 go, nothing else, and a failure of 1.4 contains the words in quotes. ``# loses 1.1, also 1.4 · …`` where the lab
    declares that 1.4 rests on 1.1.
``# keeps 1.4``
    full marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from course_lib.grading.reference import load

HERE = Path(__file__).parent
HEADER = re.compile(
    r'# (?P<kind>loses|keeps) (?P<question>\d+\.\d+)(?:, also (?P<also>[\d., ]+?))?(?: · message: "(?P<message>.*)")?\s*$'
)
ANSWERS = sorted(HERE.glob("lab*/*.py"))
LABS = sorted({p.parent.name for p in ANSWERS})
Graded = Callable[[str], dict[str, Any]]


def header(path: Path) -> re.Match[str]:
    first = path.read_text().splitlines()[0]
    match = HEADER.match(first)
    assert match, f"{path.name} begins with {first!r}: it should say what it loses or keeps"
    return match


def lost(result: dict[str, Any]) -> dict[str, list[str]]:
    """Per question that lost points, what the student was told."""
    told: dict[str, list[str]] = {}
    for test in result["tests"]:
        if test["status"] == "failed":
            told.setdefault(test["number"], []).append(test["output"])
    return told


@pytest.mark.parametrize("path", ANSWERS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_answer(path: Path, marked: Callable[[Path], dict[str, Any]]) -> None:
    said = header(path)
    told = lost(marked(path))
    question = said["question"]
    if said["kind"] == "keeps":
        assert not told
        return
    assert question in told, "a wrong answer that keeps its points"
    also = set(re.findall(r"\d+\.\d+", said["also"] or ""))
    assert told.keys() <= {question} | also, told
    assert said["message"] is not None, "a wrong answer says which message it must get"
    assert any(said["message"] in message for message in told[question]), told[question]


@pytest.mark.parametrize("lab", LABS)
def test_the_solution_gets_full_marks_and_the_handout_none(lab: str, graded: Graded) -> None:
    results = graded(lab)
    assert not lost(results["solution"])
    assert results["solution"]["score"] == sum(t["max_score"] for t in results["solution"]["tests"]) == 20
    assert results["handout"]["score"] == 0
    assert results["torn"]["score"] == 0
    assert results["torn"]["extra_data"]["status"] == "unreadable"


@pytest.mark.parametrize("lab", LABS)
def test_every_exercise_has_wrong_answers_and_two_other_right_ones(lab: str) -> None:
    functions = {q: a for q, a in load(lab).questions.items() if any(load(lab).function(n) for n in a.names)}
    for question in functions:
        kinds = [header(p)["kind"] for p in ANSWERS if p.parent.name == lab and header(p)["question"] == question]
        assert kinds.count("loses") >= 1, f"{question} has no wrong answer"
        assert kinds.count("keeps") >= 2, f"{question} has {kinds.count('keeps')} right answers in another style"
