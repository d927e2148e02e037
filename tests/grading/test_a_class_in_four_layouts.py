"""A class of sixty in the layouts of four platforms, with every odd file that is known:
each student gets what they deserve, and the same in every layout.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from grading.small_lab import RIGHT, claim, notebook, put, read_table, zipped
from grading.test_nothing_is_lost import BAD, GOOD, HALF, HANDOUT, answered, as_run

from course_lib.grading.batch import run as batch
from course_lib.grading.batch import summary, upload

Files = dict[str, str | bytes]  # in the order in which they were handed in
LETTERS = [
    "अनील",
    "மு",
    "สมชาย",
    "müller",
    "nguyễn",
    "łukasz",
    "김철수",
    "مُحَمَّد",
    "がくせい",
    "o'hara",
]


def students() -> list[tuple[str, Files, tuple[str, str]]]:
    """Each student's name, files, and what they deserve: status and points."""
    full, none = ("graded", "3"), ("pending", "")
    found: list[tuple[str, Files, tuple[str, str]]] = []

    def add(files: Files, deserved: tuple[str, str], name: str = "") -> None:
        found.append((name or f"student{len(found):02}", files, deserved))

    for name in LETTERS:
        add({"lab01.ipynb": answered()}, full, name)
    for name, data in GOOD.items():
        add({name: data}, full)
    for name, (data, _) in BAD.items():
        add({name: data}, none)
        add({name: data, "my lab01.ipynb": answered(HALF)}, ("graded", "2"))
    for mine in ("lab01_bo.ipynb", "Lab1-Cy.ipynb", "x-done.ipynb"):
        add({mine: answered(), "lab01_magnitude_pruning.ipynb": HANDOUT}, full)
        add({"lab01_magnitude_pruning.ipynb": as_run(), mine: answered()}, full)
    add({"lab01.ipynb": HANDOUT}, ("unchanged", ""))
    add({"lab01.ipynb": as_run()}, ("unchanged", ""))
    add({"lab00.ipynb": notebook("x = 1")}, none)
    add({"notes.txt": b"later"}, none)
    add({"lab01.ipynb": answered("def magnitude_mask(w, s): return w")}, ("graded", "0"))
    add({"all.zip": zipped({"a/lab01.ipynb": HANDOUT, "b/mine.ipynb": answered()})}, full)
    imported = "from my_answers import magnitude_mask, threshold_mask"
    add({"lab01.ipynb": answered(imported), "my_answers.py": f"import torch\n{RIGHT}"}, full)
    add({"lab01.ipynb": answered(f"%%capture\n%%time\n{RIGHT}")}, full)
    inside = RIGHT.replace("return weight.abs()", "%time 1 + 1\n    !ls\n    return weight.abs()")
    add(
        {
            "lab01.ipynb": answered(
                inside.replace(
                    "def threshold_mask(weight, a): ", "def threshold_mask(weight, a):\n    "
                )
            )
        },
        full,
    )
    while len(found) < 60:
        number = len(found)
        add(
            {"lab01.ipynb": answered(f"{(RIGHT, HALF)[number % 2]}\n# {number}")},
            ("graded", "32"[number % 2]),
        )
    return found


CLASS = students()


def canvas(folder: Path) -> None:
    upload_number = 90_000
    for i, (name, files, _) in enumerate(CLASS):
        letters = "".join(c for c in name if c != "'")
        for own, data in files.items():
            upload_number += 1
            put(folder / f"{letters}_{10_000 + i}_{upload_number}_{own}", data)


def moodle(folder: Path) -> None:
    for i, (name, files, _) in enumerate(CLASS):
        for own, data in files.items():
            put(folder / f"{name}_{10_000 + i}_assignsubmission_file_" / own, data)


def gradescope(folder: Path) -> None:
    listed = ""
    for i, (name, files, _) in enumerate(CLASS):
        for own, data in files.items():
            put(folder / f"submission_{10_000 + i}" / own, data)
        listed += f"submission_{10_000 + i}:\n  :submitters:\n  - :name: \"{name}\"\n    :sid: '{10_000 + i}'\n"
    put(folder / "submission_metadata.yml", listed)


def plain(folder: Path) -> None:
    for i, (name, files, _) in enumerate(CLASS):
        for own, data in files.items():
            put(folder / f"{name} {10_000 + i}" / own, data)


@pytest.mark.long
@pytest.mark.parametrize("layout", [canvas, moodle, gradescope, plain])
def test_each_gets_what_they_deserve(tmp_path: Path, layout: Callable[[Path], None]) -> None:
    assert len(CLASS) == 60
    layout(tmp_path / "in")
    tests = claim(tmp_path / "tests")
    done = batch.grade("lab01", tmp_path / "in", tmp_path / "report", tests=tests, seed=1)
    rows = {id[-5:]: (row["status"], row["total"]) for id, row in read_table(done.report).items()}
    deserved = {f"{10_000 + i}": deserved for i, (_, _, deserved) in enumerate(CLASS)}
    assert rows == deserved
    said = summary.status_sentences(done.report)
    graded = sum(status == "graded" for status, _ in deserved.values())
    assert said[0].startswith(f"60 submissions: {graded} graded, ")
    assert len(said) == 2 + 60 - graded  # each that is not plainly graded, and what to do
    upload.write(done.report, ["canvas", "moodle", "gradescope"])
    assert len({*rows}) == 60
    platform = {
        canvas: ("canvas", "ID", -1),
        moodle: ("moodle", "Identifier", 4),
        gradescope: ("gradescope", "SID", 5),
    }
    if layout in platform:
        form, column, at = platform[layout]
        with open(done.report / f"grades-{form}.csv", newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        points = {
            line[header.index(column)][-5:]: line[at] for line in lines if "Possible" not in line[0]
        }
        exported = {id: total for id, total in points.items() if total}
        assert exported == {id: total for id, (_, total) in deserved.items() if total}
