"""The whole course as a term sees it: released, every lab done as its solution does it,
handed in and graded: all of its points, lab by lab, of which those of optional exercises
are a bonus.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import nbformat
import pytest

from course_lib import labs
from course_lib.authoring import release, source
from course_lib.grading.batch import run as batch
from course_lib.grading.batch.result import read

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]


@pytest.fixture(scope="module")
def released() -> dict[str, bytes]:
    return {name: data for name, (data, _) in release.contents(ROOT).items()}


@pytest.mark.parametrize("lab", labs.available())
def test_a_lab_is_released_done_handed_in_and_graded_with_all_its_points(
    lab: str, released: dict[str, bytes], tmp_path: Path
) -> None:
    (name,) = [name for name in released if Path(name).match(f"labs/{lab}_*.ipynb")]
    notebook = nbformat.reads(released[name].decode(), as_version=4)
    (walkthrough,) = (ROOT / "solutions").glob(f"{lab}_*.ipynb")
    asked = source.read(walkthrough.with_suffix(".py"), ROOT).questions
    solved = {cell.id: cell.source for cell in nbformat.read(walkthrough, as_version=4).cells}
    for cell in notebook.cells:
        cell.source = solved[cell.id]
    amy = tmp_path / "submissions" / "amy"
    amy.mkdir(parents=True)
    nbformat.write(notebook, amy / Path(name).name)
    tests = ROOT / "tests" / "labs" / lab
    for file in labs.load(lab).files:
        assert not any(Path(given).name == file for given in released), (
            "students get no model that is to be handed in"
        )
        shutil.copy(tests / "files" / file, amy)
    marked = [
        (id, asked.by_hand) for id, asked in labs.load(lab).questions.items() if asked.by_hand
    ]
    with open(tmp_path / "marks.csv", "w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows(
            [("id", "question", "points", "comment"), *(("amy", *mark, "") for mark in marked)]
        )
    marks = tmp_path / "marks.csv" if marked else None
    batch.grade(
        lab,
        tmp_path / "submissions",
        tmp_path / "report",
        tests=tests,
        seed=20,
        jobs=1,
        marks=marks,
    )
    result = read(tmp_path / "report", "amy")
    assert result is not None and result.status == "graded", result
    lost = [(test.name, test.output) for test in result.entries if test.score != test.max_score]
    assert not lost
    total = sum(question.points for question in asked)
    assert sum(test.score for test in result.entries) == total
    with open(tmp_path / "report" / "grades.csv", newline="", encoding="utf-8") as table:
        (row,) = csv.DictReader(table)
    bonus = sum(test.max_score for test in result.entries if test.optional)
    assert bonus == sum(
        result.points[id][1] for id, asked in labs.load(lab).questions.items() if asked.optional
    )
    core = f"{total - bonus:g}"
    assert (row["total"], row["maximum"], row["status"]) == (core, core, "graded")


def test_there_are_thirteen() -> None:
    assert labs.available() == [f"lab{number:02d}" for number in range(13)]
