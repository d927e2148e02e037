"""Files that a lab asks for beside the notebook: found in every layout, judged by the
claims, and graded again when they change.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from small_lab import notebook, put_code

from course_lib.grading.batch import run as batch
from course_lib.grading.batch.collect import MOST_BESIDE as MOST
from course_lib.grading.batch.collect import collect, read_single_submission
from course_lib.grading.batch.result import read

CNN, BERT = "capstone-cnn.safetensors", "capstone-bert.safetensors"
MOST_BESIDE = MOST[".safetensors"]


def beside(folder: Path) -> dict[str, dict[str, Any]]:
    return {h.id: h.files for h in collect(folder, "lab11", (CNN, BERT)).submissions}


def test_files_lie_in_the_students_folder_or_zip(tmp_path: Path) -> None:
    put_code(tmp_path / "ann" / "lab11.ipynb", "a = 1")
    put_code(tmp_path / "ann" / CNN, "anns net")
    put_code(tmp_path / "ann" / "old" / CNN, "older", when=1e9)
    put_code(tmp_path / "ann" / BERT.upper().replace("SAFETENSORS", "safetensors"), "anns bert")
    with zipfile.ZipFile(tmp_path / "bob.zip", "w") as archive:
        archive.writestr("work/lab11.ipynb", notebook("b = 1"))
        archive.writestr(f"work/{CNN}", "bobs net")
        archive.writestr("other.safetensors", "nothing")
    put_code(tmp_path / "cy.ipynb", "c = 1")
    found = beside(tmp_path)
    assert found == {
        "ann": {CNN: b"anns net", BERT: b"anns bert"},
        "bob": {CNN: b"bobs net"},
        "cy": {},
    }


def test_of_several_submissions_the_files_of_the_one_that_counts(tmp_path: Path) -> None:
    for day, what in (("01", "first"), ("03", "last"), ("02", "second")):
        put_code(tmp_path / "ann" / f"2024-05-{day}T10-00-00" / "lab11.ipynb", f"{what} = 1")
        put_code(tmp_path / "ann" / f"2024-05-{day}T10-00-00" / CNN, what)
    put_code(tmp_path / "ann" / "2024-05-01T10-00-00" / BERT, "of the first")
    assert beside(tmp_path) == {"ann": {CNN: b"last", BERT: b"of the first"}}


def test_canvas_and_moodle(tmp_path: Path) -> None:
    put_code(tmp_path / "canvas" / "doejane_12345_800_lab11.ipynb", "a = 1")
    put_code(tmp_path / "canvas" / f"doejane_12345_810_{CNN}", "old")
    put_code(tmp_path / "canvas" / "doejane_12345_950_capstone-cnn-1.safetensors", "new")
    put_code(tmp_path / "canvas" / f"roejohn_12346_960_{CNN}", "his")
    put_code(tmp_path / "canvas" / "roejohn_12346_970_lab11.ipynb", "b = 1")
    assert beside(tmp_path / "canvas") == {
        "doejane_12345": {CNN: b"new"},
        "roejohn_12346": {CNN: b"his"},
    }
    put_code(tmp_path / "moodle" / "Jane Doe_7_assignsubmission_file_" / "lab11.ipynb", "a = 1")
    put_code(tmp_path / "moodle" / "Jane Doe_7_assignsubmission_file_" / "models" / BERT, "hers")
    assert beside(tmp_path / "moodle") == {"Jane Doe_7": {BERT: b"hers"}}


def test_a_file_that_cannot_be_read_is_the_students_sentence(tmp_path: Path) -> None:
    put_code(tmp_path / "ann" / "lab11.ipynb", "a = 1")
    with open(tmp_path / "ann" / CNN, "wb") as file:
        file.truncate(MOST_BESIDE + 1)
    (tmp_path / "ann" / BERT).symlink_to("/dev/zero")
    found = beside(tmp_path)["ann"]
    assert "larger than 16 MB" in found[CNN]
    assert "link" in found[BERT]
    huge = tmp_path / "huge" / "x"
    put_code(huge / "lab11.ipynb", "a = 1")
    with open(huge / CNN, "wb") as file:
        file.truncate(1 << 33)  # sparse: it takes no room
    said = read_single_submission(huge, "lab11", beside=(CNN,)).files[CNN]
    assert "cannot be read" in said and "larger than 16 MB" in said


TESTS = """
from course_lib.grading import fail, question

@question("11.4", points=2, claim="the file says so")
def test_file(submission, draw):
    data = submission.handed_in.get("capstone-cnn.safetensors", "nothing was handed in")
    if not isinstance(data, bytes) or data != b"good":
        fail(data if isinstance(data, str) else f"{data!r} is not good")
"""


@pytest.mark.usefixtures("warm")
@pytest.mark.long
def test_a_file_is_judged_and_judged_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "lab11").mkdir()
    (tmp_path / "lab11" / "visible.py").write_text(TESTS)
    for name, text in (("amy", "good"), ("bob", "bad")):
        put_code(tmp_path / "submissions" / name / "lab11.ipynb", "a = 1")
        put_code(tmp_path / "submissions" / name / CNN, text)
    put_code(tmp_path / "submissions" / "cy" / "lab11.ipynb", "a = 1")

    def grade() -> batch.Batch:
        return batch.grade(
            "lab11", tmp_path / "submissions", tmp_path / "report", tests=tmp_path / "lab11", jobs=1
        )

    def told(id: str) -> tuple[float, str]:
        result = read(tmp_path / "report", id)
        assert result is not None
        entry = next(test for test in result.entries if test.number == "11.4")
        return entry.score, entry.output

    assert sorted(grade().graded) == ["amy", "bob", "cy"]
    assert told("amy")[0] == 2 and told("bob")[0] == 0 and "is not good" in told("bob")[1]
    assert "nothing was handed in" in told("cy")[1]
    put_code(tmp_path / "submissions" / "bob" / CNN, "good")
    again = grade()
    assert again.graded == ["bob"] and sorted(again.kept) == ["amy", "cy"] and told("bob")[0] == 2
    os.utime(tmp_path / "submissions" / "amy" / CNN)
    assert not grade().graded
