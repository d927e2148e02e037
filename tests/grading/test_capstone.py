"""A class hands in capstones: whoever hands in a file that is no model loses that
question, told in a sentence, and nobody else anything.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hostile_models import BERT, CNN

from course_lib import labs
from course_lib.grading.batch import run as batch
from course_lib.grading.batch.result import Result, read

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "labs" / "lab11"
FILES = {"cnn": "capstone-cnn.safetensors", "bert": "capstone-bert.safetensors"}
QUESTION = {"cnn": "11.5", "bert": "11.4"}
HOSTILE = [*(("cnn", how) for how in CNN), *(("bert", how) for how in BERT)]
HONEST = ("amy", "mia", "zoe")  # among the others by their letters

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Of each student what the batch said of each question."""
    place = tmp_path_factory.mktemp("capstones")
    (walkthrough,) = (ROOT / "solutions").glob("lab11_*.ipynb")
    good = {kind: (TESTS / "files" / name).read_bytes() for kind, name in FILES.items()}

    def hands_in(who: str, files: dict[str, bytes]) -> None:
        folder = place / "submissions" / who
        folder.mkdir(parents=True)
        shutil.copy(walkthrough, folder)
        for kind, data in files.items():
            (folder / FILES[kind]).write_bytes(data)

    for who in HONEST:
        hands_in(who, good)
    for number, (kind, how) in enumerate(HOSTILE):
        make, _ = (CNN if kind == "cnn" else BERT)[how]
        hands_in(f"student{number}", {kind: make(good[kind])})
    hands_in("nobody", {})
    batch.grade("lab11", place / "submissions", place / "report", tests=TESTS, seed=7, jobs=2)
    found = {}
    for folder in (place / "submissions").iterdir():
        result = read(place / "report", folder.name)
        assert result is not None and result.status == "graded", result
        assert result.pending == ["11.6"], "a person reads the argument"
        found[folder.name] = result
    return found


def points(result: Result, question: str) -> float:
    return sum(t.score for t in result.entries if t.number == question)


def test_all_are_marked_and_the_honest_have_what_they_have_alone(
    graded: dict[str, Result],
) -> None:
    assert len(graded) == len(HONEST) + len(HOSTILE) + 1 and len(HOSTILE) >= 40
    for who in HONEST:
        assert sum(test.score for test in graded[who].entries) == 15, graded[who].entries


def test_a_hostile_file_costs_its_question_and_is_told_in_a_sentence(
    graded: dict[str, Result],
) -> None:
    others = [q for q in labs.load("lab11").questions if q not in (*QUESTION.values(), "11.6")]
    whole = {q: points(graded["amy"], q) for q in others}
    for number, (kind, how) in enumerate(HOSTILE):
        result = graded[f"student{number}"]
        assert {q: points(result, q) for q in others} == whole, how
        told = {t.output for t in result.entries if t.number == QUESTION[kind]}
        assert points(result, QUESTION[kind]) == 0
        assert all(len(said) < 500 and "\n" not in said.strip() for said in told), told
        says = (CNN if kind == "cnn" else BERT)[how][1]
        assert any(re.search(says, said) for said in told), (how, told)
    assert {q: points(graded["nobody"], q) for q in others} == whole
