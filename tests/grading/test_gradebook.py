"""The platform's own table comes back with the points in it, and nobody else's."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

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
    separator = ";" if ";" in text else ","
    return list(csv.reader(path.open(encoding="utf-8-sig"), delimiter=separator)), said


@pytest.mark.parametrize("text, column, at", [(CANVAS, "", 4), (MOODLE, "Bewertung", 3)])
def test_points_go_to_whose_number_it_is(tmp_path: Path, text: str, column: str, at: int) -> None:
    kind = "canvas id" if text is CANVAS else "moodle id"
    some = [("jane", [{kind: "101"}], 2.5), ("zoe", [{kind: "999"}], 1.0), ("amy", [], 1.0)]
    rows, said = filled(graded(tmp_path / "r", *some), text, column)
    jane, john = rows[-2:]
    assert (jane[at], john[at]) == ("2.5", "1" if text is CANVAS else "")
    assert [line.split(":")[-1] for line in said[:2]] == [" 0 rows fit it"] * 2
    assert said[2].startswith("rows without a submission, left as they are: 1 (")


def test_a_group_by_email_and_a_submission_by_its_id(tmp_path: Path) -> None:
    both = [{"email": "Jane@x.edu"}, {"email": "john@x.edu"}]
    rows, said = filled(graded(tmp_path / "r", ("g", both, 2.0)), MOODLE, "bewertung")
    assert [row[3] for row in rows] == ["Bewertung", "2", "2"] and not said
    rows, _ = filled(graded(tmp_path / "s", ("amy", [], 1.0)), "who,Grade\namy,\nbob,\n")
    assert rows == [["who", "Grade"], ["amy", "1"], ["bob", ""]]


def test_what_fits_two_is_neithers(tmp_path: Path) -> None:
    two = [("a", [{"sid": "s2"}], 1.0), ("b", [{"canvas id": "102"}], 2.0)]
    rows, said = filled(graded(tmp_path / "r", *two), CANVAS)
    assert rows[-1][4] == "1" and rows[-1][0] == "Roe, =John" and len(said) == 3


def test_a_column_that_is_not_sure_is_asked_for(tmp_path: Path) -> None:
    folder = graded(tmp_path / "r", ("a", [], 1.0))
    for text in ("who,Grade,Grade\n", "who,Lab 1,Lab 01\n", "who\n"):
        with pytest.raises(ValueError, match="--column"):
            filled(folder, text)
    assert not (folder / "gradebook.csv").exists()


def text_of(folder: Path, data: str, **settings: Any) -> tuple[str, list[str]]:
    table = folder / "table.csv"
    table.write_bytes(data.encode())
    path, said = gradebook.fill(folder, table, **settings)
    return path.read_bytes().decode(), said


def canvas(id: str, points: float, number: str) -> tuple[str, list[dict[str, str]], float]:
    return id, [{"canvas id": number, "name": id}], points


EXPORT = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Lab 1 (77),Final Score\r\n"
    ",,,,,Manual Posting,\r\n    Points Possible,,,,,3,(read only)\r\n"
    '"Ada, A",601001,s601001,l601001,"S1",,""\r\n"Bo, ""B""",601002,s601002,l601002,S1,EX, x\r\n'
    '"Cy, C",601003,s601003,"l601003",S1,2,\r\n"Di, D",601004,s601004,l601004,S1,"",\r\n'
    '"Student, Test",699999,,x,S1,,\n'
)


def test_every_other_byte_of_canvas_export_stays(tmp_path: Path) -> None:
    some = [canvas(f"s{i}", 2.5, f"60100{i}") for i in range(1, 5)]
    folder = graded(tmp_path / "r", *some)
    text, said = text_of(folder, EXPORT)
    wanted = EXPORT.replace('"S1",,""', '"S1",2.5,""').replace('S1,"",', 'S1,"2.5",')
    assert text == wanted
    assert "s2 (2.5 points) is not in it: the student is excused (EX) on the platform" in said
    assert any(line.startswith("s3 (2.5 points)") and "has 2 already" in line for line in said)
    text, _ = text_of(folder, EXPORT, overwrite=True)
    assert text == wanted.replace("S1,2,", "S1,2.5,")


def test_first_and_last_names_in_columns(tmp_path: Path) -> None:
    data = (
        "LastName,FirstName,ID,SIS Login ID,Section,Lab 01 (7)\n,,,,,Manual Posting\n"
        "    Points Possible,,,,,3.0\nA,Ada,601001,a,S,\n"
    )
    text, said = text_of(graded(tmp_path / "r", canvas("ada", 1.5, "601001")), data)
    assert text == data.replace("a,S,", "a,S,1.5") and not said


@pytest.mark.parametrize(
    "data",
    [
        EXPORT.replace(",3,(read", ",10,(read"),
        MOODLE.replace("3,00", "10,00").replace("in101", "in601001"),
        "SID,Email,Lab 1,Lab 1 - Max Points,Lab 1 - Submission Time\n601001,,,10.0,\n",
    ],
    ids=["canvas", "moodle", "gradescope"],
)
def test_another_maximum_is_refused_with_both_numbers(tmp_path: Path, data: str) -> None:
    folder = graded(tmp_path / "r", canvas("ada", 1.5, "601001"))
    with pytest.raises(ValueError, match="maximum is 10 points and the lab's 3"):
        text_of(folder, data, column="Bewertung" if "Bewertung" in data else "")
    assert not (folder / "gradebook.csv").exists()


def test_both_members_of_a_canvas_group_get_the_mark(tmp_path: Path) -> None:
    groups = put(
        tmp_path / "groups.csv",
        "name,canvas_user_id,user_id,login_id,sections,group_name\n"
        "Ada,601001,s601001,l601001,S1,One\nCy,601003,s601003,l601003,S1,Two\n"
        "Di,601004,s601004,l601004,S1,One\n",
    )
    folder = graded(tmp_path / "r", canvas("ada", 2.5, "601001"), canvas("cy", 2, "601003"))
    text, _ = text_of(folder, EXPORT, groups=groups)
    assert text == EXPORT.replace('"S1",,""', '"S1",2.5,""').replace('S1,"",', 'S1,"2.5",')


def test_what_nobody_decided_is_named_and_no_0(tmp_path: Path) -> None:
    folder = graded(tmp_path / "r")
    report.save(
        folder,
        Result("ada", "ada", (), lab="lab01", undecided=True, status="pending",
               submitters=[{"canvas id": "601001"}]),
    )  # fmt: skip
    put(folder / "batch.json", '{"lab": "lab01", "files": ["ada"]}')
    text, said = text_of(folder, EXPORT)
    assert text == EXPORT
    assert said[0] == "ada is not in it: it has no grade until a person has decided"


def test_a_locked_row_of_moodle_stays(tmp_path: Path) -> None:
    data = (
        "Identifier,Full name,Status,Grade,Maximum Grade,Grade can be changed\n"
        "Participant 11,Ada,Submitted,,3.00,No\nParticipant 12,Bo,Submitted,-,3.00,Yes\n"
    )
    some = [(f"s{i}", [{"moodle id": str(i), "name": "x"}], 2.0) for i in (11, 12)]
    text, said = text_of(graded(tmp_path / "r", *some), data)
    assert text == data.replace("-,3.00", "2,3.00")
    assert said == ["s11 (2 points) is not in it: its row is locked on the platform"]


def test_a_mark_is_not_a_students_number(tmp_path: Path) -> None:
    data = "Name,SID,Quiz,Lab 1\nAda,30,20,\nBo,20,30,\nCy,40,30,\n"
    text, _ = text_of(
        graded(tmp_path / "r", ("bo", [{"sid": "20"}], 1.0), ("cy", [{"sid": "40"}], 2.0)), data
    )
    assert text == "Name,SID,Quiz,Lab 1\nAda,30,20,\nBo,20,30,1\nCy,40,30,2\n"
