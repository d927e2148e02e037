"""The platform's own table comes back with the points in it, and nobody else's."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from small_lab import put

from course_lib.grading.batch import gradebook, report
from course_lib.grading.batch.result import ClaimResult, Result

CANVAS = (
    "Student,ID,SIS User ID,Section,Lab 1 (55),Lab 11 (56)\n    Points Possible,,,,3,20\n"
    '"Doe, Jane",101,,A,,7\n"Roe, =John",102,s2,A,1,\n'
)
MOODLE = (
    "\ufeffID;Vollständiger Name;E-Mail-Adresse;Bewertung;Bestwertung\r\n"
    "Teilnehmer/in101;Jane;jane@x.edu;;3,00\r\nTeilnehmer/in102;John;JOHN@x.edu;;3,00\r\n"
)


def graded(folder: Path, *results: tuple[str, list[dict[str, str]], float]) -> Path:
    """A report with these submissions: id, submitters, points."""
    for name in ("results", "feedback"):
        (folder / name).mkdir(parents=True)
    for id, who, points in results:
        entry = ClaimResult("1.1", "1.1 c", points, 3.0, "passed")
        report.save(folder, Result(id, id, (entry,), lab="lab01", submitters=who))
    files = [f'"{id}"' for id, _, _ in results]
    put(folder / "batch.json", f'{{"lab": "lab01", "files": [{", ".join(files)}]}}')
    return folder


def filled(folder: Path, text: str, column: str = "") -> tuple[list[list[str]], list[str]]:
    path, said = gradebook.fill(folder, put(folder / "table.csv", text), column)
    return list(csv.reader(path.open(encoding="utf-8"))), said


@pytest.mark.parametrize("text, column, at", [(CANVAS, "", 4), (MOODLE, "Bewertung", 3)])
def test_points_go_to_whose_number_it_is(tmp_path: Path, text: str, column: str, at: int) -> None:
    kind = "canvas id" if text is CANVAS else "moodle id"
    some = [("jane", [{kind: "101"}], 2.5), ("zoe", [{kind: "999"}], 1.0), ("amy", [], 1.0)]
    rows, said = filled(graded(tmp_path / "r", *some), text, column)
    jane, john = rows[-2:]
    assert (
        jane[at] == "2.5"
        and john[at] == text.splitlines()[-1].split(",;"[text is MOODLE])[at + (text is CANVAS)]
    )
    assert [line.split(":")[-1] for line in said] == [" 0 rows fit it"] * 2


def test_a_group_by_email_and_a_submission_by_its_id(tmp_path: Path) -> None:
    both = [{"email": "Jane@x.edu"}, {"email": "john@x.edu"}]
    rows, said = filled(graded(tmp_path / "r", ("g", both, 2.0)), MOODLE, "bewertung")
    assert [row[3] for row in rows] == ["Bewertung", "2", "2"] and not said
    rows, _ = filled(graded(tmp_path / "s", ("amy", [], 1.0)), "who,Grade\namy,\nbob,\n")
    assert rows == [["who", "Grade"], ["amy", "1"], ["bob", ""]]


def test_what_fits_two_is_neithers(tmp_path: Path) -> None:
    two = [("a", [{"sid": "s2"}], 1.0), ("b", [{"canvas id": "102"}], 2.0)]
    rows, said = filled(graded(tmp_path / "r", *two), CANVAS)
    assert rows[-1][4] == "1" and rows[-1][0] == "Roe, =John" and len(said) == 2


def test_a_column_that_is_not_sure_is_asked_for(tmp_path: Path) -> None:
    folder = graded(tmp_path / "r", ("a", [], 1.0))
    for text in ("who,Grade,Grade\n", "who,Lab 1,Lab 01\n", "who\n"):
        with pytest.raises(ValueError, match="--column"):
            filled(folder, text)
    assert not (folder / "gradebook.csv").exists()
