"""Marks in the LMSs' own forms: who gets which, what is nobody's, and what a roster may
look like.
"""

from __future__ import annotations

import csv
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from course_lib.grading.batch import roster as rosters
from course_lib.grading.batch import upload as lms
from course_lib.grading.batch.roster import Index
from course_lib.grading.batch.submission import Submission


def report(folder: Path, *submissions: dict[str, Any]) -> Path:
    """A report with these submissions; each earns "marks" of 3 and 2 points in two
    questions.
    """
    (folder / "results").mkdir(parents=True)
    files = []
    for s in submissions:
        h = Submission(s["id"])
        files.append(h.file_name)
        marks = s.get("marks", (3, 2))
        tests = [
            {"number": q, "score": m, "max_score": of, "name": q, "output": "", "status": "passed"}
            for q, m, of in zip(("1.1", "1.2"), marks, (3, 2.5), strict=True)
        ]
        extra = {
            "id": h.id,
            "notebook": s.get("notebook", h.id + ".ipynb"),
            "status": "graded",
            "submitters": s.get("who", []),
            "handed in": s.get("time"),
        }
        result = {"score": sum(marks), "tests": tests, "extra_data": extra}
        (folder / "results" / f"{h.file_name}.json").write_text(json.dumps(result))
    (folder / "batch.json").write_text(json.dumps({"lab": "lab01", "seed": 1, "files": files}))
    return folder


def roster(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "roster.csv"
    path.write_bytes(text.encode(encoding))
    return path


def table(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


CANVAS = {"id": "doejane_12", "who": [{"canvas id": "12", "name": "doejane"}], "marks": (1.5, 2)}


def test_canvas_form(tmp_path: Path) -> None:
    out = report(
        tmp_path / "r", CANVAS, {"id": "zöe_13", "who": [{"canvas id": "13", "name": "zöe"}]}
    )
    people = roster(
        tmp_path,
        "name;canvas id;SIS Login ID;section\nJane Doe;12;jdoe;A\nZöe;13;zoe;B\nNo Work;14;nw;A\n",
        "utf-8-sig",
    )
    written = lms.write(out, ["canvas"], people)
    header, possible, *rows = table(out / "grades-canvas.csv")
    assert header[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert "Magnitude pruning" in header[5] and len(header) == 6
    assert possible == ["    Points Possible", "", "", "", "", "5.5"]
    assert rows == [["Doe, Jane", "12", "", "jdoe", "A", "3.5"], ["Zöe", "13", "", "zoe", "B", "5"]]
    assert written.unmatched == ["roster No Work (line 4 of the roster): no submission"]
    assert written.listed == out / "grades-unmatched.csv"
    assert (
        ",".join(table(written.listed)[1]) == "roster,No Work (line 4 of the roster),,no submission"
    )
    # Canvas's own export is a roster
    export = CANVAS_EXPORT + 'Zöe,13,,,"A, B",,,,\n'
    written = lms.write(out, ["canvas"], roster(tmp_path, export), "Lab 00")
    assert written.unmatched == []
    assert table(out / "grades-canvas.csv")[2:] == [
        ["Doe, Jane", "12", "S12", "jdoe", "A", "3.5"],
        ["Zöe", "13", "", "", "A, B", "5"],
    ]


def test_moodle_form_keeps_the_identifier_in_the_folders_name(tmp_path: Path) -> None:
    out = report(
        tmp_path / "r",
        {"id": "Jane Doe_77", "who": [{"moodle id": "77", "name": "Jane Doe"}]},
        {"id": "al", "notebook": "al.ipynb"},
    )
    people = roster(
        tmp_path,
        "Identifier,Full name,Email address\nParticipant 77,Jane Doe,j@x.edu\nTeilnehmer/in 78,Bo,b@x.edu\n",
    )
    written = lms.write(out, ["moodle"], people)
    header, *rows = table(out / "grades-moodle.csv")
    assert {"Identifier", "Full name", "Email address", "Grade", "Last modified (grade)"} <= set(
        header
    )
    assert rows[0][:5] == ["Participant 77", "Jane Doe", "j@x.edu", "Submitted for grading", "5"]
    assert rows[1][:5] == ["Participant 78", "Bo", "b@x.edu", "No submission", ""]
    assert rows[0][header.index("Last modified (grade)")] == "-"
    assert (
        rows[0][header.index("Feedback comments")] == "5 of 5.5 points (1.1: 3 of 3, 1.2: 2 of 2.5)"
    )
    assert [line.split(":")[0] for line in written.unmatched] == [
        "submission al, 5 points",
        "roster Bo (line 3 of the roster)",
    ]


GERMAN = (
    "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Bewertung kann geändert werden,"
    "Zuletzt geändert (Abgabe),Zuletzt geändert (Bewertung),Feedback als Kommentar\r\n"
    'Teilnehmer/in77,Jane Doe,j@x.edu,Zur Bewertung abgegeben,"1,00","5,50",Ja,"Mittwoch, 1. Mai 2024, 10:00",-,alt\r\n'
    'Teilnehmer/in78,Bo Ng,b@x.edu,Keine Abgabe,,"5,50",Ja,-,-,\r\n'
)


def test_moodles_own_worksheet_is_filled_in_whatever_its_language(tmp_path: Path) -> None:
    out = report(
        tmp_path / "r", {"id": "Jane Doe_77", "who": [{"moodle id": "77", "name": "Jane Doe"}]}
    )
    written = lms.write(out, ["moodle", "canvas"], roster(tmp_path, GERMAN, "utf-8-sig"))
    theirs = list(csv.reader(GERMAN.splitlines()))
    header, jane, bo = table(out / "grades-moodle.csv")
    assert header == theirs[0] and bo == theirs[2]
    assert jane == [
        *theirs[1][:4],
        "5",
        *theirs[1][5:9],
        "5 of 5.5 points (1.1: 3 of 3, 1.2: 2 of 2.5)",
    ]
    assert written.unmatched == ["roster Bo Ng (line 3 of the roster): no submission"]
    assert not [remark for remark in written.remarks if remark.startswith("moodle")]
    hundred = roster(
        tmp_path,
        GERMAN.replace("5,50", "100,00").replace(",Feedback als Kommentar", "").replace(",alt", ""),
    )
    written = lms.write(out, ["moodle"], hundred)
    assert table(out / "grades-moodle.csv")[1][4] == "5"
    assert written.remarks == [
        "moodle: the assignment's maximum is 100, the lab has 5.5 points: make them the same",
        "moodle: the worksheet has no column for comments: turn on 'Feedback comments' in the assignment for one",
    ]


CANVAS_EXPORT = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Lab 00 (97),Lab 1: magnitude (98),Essay on lab 1 (99),Current Score\n"
    '    Points Possible,,,,,5,5,5,(read only)\n"Doe, Jane",12,S12,jdoe,A,,,,\n'
)


def test_canvas_column_is_the_assignments(tmp_path: Path) -> None:
    out = report(tmp_path / "r", CANVAS)

    def heading(text: str | None, **settings: str) -> tuple[str, list[str]]:
        people = roster(tmp_path, text) if text else None
        written = lms.write(out, ["canvas"], people, **settings)
        return table(out / "grades-canvas.csv")[0][5], written.remarks

    alone = (
        CANVAS_EXPORT.replace(",Essay on lab 1 (99)", "")
        .replace("5,5,5", "5,5")
        .replace("A,,,,", "A,,,")
    )
    assert heading(alone) == ("Lab 1: magnitude (98)", [])
    assert heading(CANVAS_EXPORT, assignment="lab 1: Magnitude") == ("Lab 1: magnitude (98)", [])
    assert heading(CANVAS_EXPORT, assignment="Essay on lab 1 (99)") == ("Essay on lab 1 (99)", [])
    assert heading(None, assignment="Lab 1 (98)") == ("Lab 1 (98)", [])
    title, (said,) = heading(CANVAS_EXPORT)
    assert (
        "Magnitude pruning" in title
        and "--assignment" in said
        and "Lab 1: magnitude (98), Essay on lab 1 (99)" in said
    )
    title, (said,) = heading(None)
    assert "Magnitude pruning" in title and "would make a new assignment" in said
    with pytest.raises(ValueError, match=r"no column 'Lab 2': name one of Lab 00 \(97\)"):
        heading(CANVAS_EXPORT, assignment="Lab 2")


def test_gradescope_form_with_group_work(tmp_path: Path) -> None:
    who = [
        {"name": "Al Lee", "email": "AL@x.edu", "gradescope id": "9"},
        {"name": "Bo", "sid": "8", "gradescope id": "9"},
    ]
    out = report(tmp_path / "r", {"id": "submission_9", "who": who, "time": 1714644000.5})
    people = roster(
        tmp_path,
        "First Name,Last Name,SID,Email\nAl,Lee,7,al@x.edu\nBo,,8,bo@x.edu\nCy,Fox,9,cy@x.edu\n",
    )
    lms.write(out, ["gradescope"], people)
    header, *rows = table(out / "grades-gradescope.csv")
    assert header == [
        "First Name", "Last Name", "SID", "Email", "Sections", "Total Score", "Max Points", "Status", "Submission ID",
        "Submission Time", "Lateness (H:M:S)", "1.1 (3 pts)", "1.2 (2.5 pts)",
    ]  # fmt: skip
    cells = "Al,Lee,7,al@x.edu,,5,5.5,Graded,9,2024-05-02 10:00:00 +0000,,3,2"
    assert ",".join(rows[0]) == cells
    assert rows[1][:3] == ["Bo", "", "8"]
    assert ",".join(rows[2]).startswith("Cy,Fox,9,cy@x.edu,,,5.5,Missing,")
    # Gradescope's own table is a roster
    again = lms.write(out, ["gradescope"], out / "grades-gradescope.csv")
    assert again.unmatched == ["roster Cy Fox (line 4 of the roster): no submission"]


def test_without_a_roster_the_names_of_submissions_do(tmp_path: Path) -> None:
    out = report(tmp_path / "r", CANVAS, {"id": "alice"})
    written = lms.write(out, lms.FORMATS)
    assert table(out / "grades-canvas.csv")[2][:2] == ["doejane", "12"]
    assert [p.name for p in written.paths] == [f"grades-{f}.csv" for f in lms.FORMATS]
    assert any(
        line.startswith("submission alice, 5 points: its name says nothing")
        for line in written.unmatched
    )
    assert any(
        line.startswith("moodle doejane") and "no moodle id" in line for line in written.unmatched
    )


@pytest.mark.parametrize(
    "submission",
    [
        {"id": "jdoe@x.edu"},
        {"id": "JDoe"},  # of the email address
        {"id": "login7"},
        {"id": "0042"},
        {"id": "Doe_Jane"},
        {"id": "jane doé"},
        {"id": "x", "who": [{"name": "doejane", "canvas id": "999"}]},
        {"id": "y", "who": [{"name": "Jane Doé", "moodle id": "5"}]},
        {"id": "team-q", "notebook": "deep/team-q.ipynb"},
        {"id": "z", "notebook": "work/team-q.ipynb"},
    ],
)
def test_how_a_submission_finds_its_student(tmp_path: Path, submission: dict[str, Any]) -> None:
    out = report(tmp_path / "r", submission)
    people = roster(
        tmp_path,
        "name,email,sis login id,sid,submission\nJane Doé,jdoe@x.edu,login7,0042,team-q\nJohn Doé,john@x.edu,login8,0043,\n",
    )
    lms.write(out, ["canvas"], people)
    assert [row[0] for row in table(out / "grades-canvas.csv")[2:]] == ["Doé, Jane"]


def test_what_fits_two_students_is_neithers(tmp_path: Path) -> None:
    out = report(tmp_path / "r", {"id": "kim lee"})
    people = roster(tmp_path, "name,sid\nKim Lee,1\nLee Kim,2\n")
    written = lms.write(out, ["gradescope"], people)
    assert any("2 rows of the roster fit" in line for line in written.unmatched)
    assert sum("no submission" in line for line in written.unmatched) == 2
    assert {row[7] for row in table(out / "grades-gradescope.csv")[1:]} == {"Missing"}


def test_two_submissions_of_one_student_are_not_chosen_by_chance(tmp_path: Path) -> None:
    out = report(tmp_path / "r", {"id": "jdoe", "marks": (0, 0)}, {"id": "Jane Doe"})
    both = roster(tmp_path, "name,email\nJane Doe,jdoe@x.edu\n")
    written = lms.write(out, ["canvas"], both)
    assert len(table(out / "grades-canvas.csv")) == 2
    assert sum("name the one that counts" in line for line in written.unmatched) == 2
    named = roster(tmp_path, "name,email,submission\nJane Doe,jdoe@x.edu,Jane Doe\n")
    written = lms.write(out, ["canvas"], named)
    assert [row[-1] for row in table(out / "grades-canvas.csv")[2:]] == ["5"]
    assert written.unmatched == [
        "submission jdoe, 0 points: the roster names another one for Jane Doe (line 2 of the roster)"
    ]


def test_a_group_named_in_the_roster_shares_its_marks(tmp_path: Path) -> None:
    out = report(tmp_path / "r", {"id": "team 4"})
    people = roster(
        tmp_path, "submission\tname\temail\nteam 4\tA B\ta@x\nteam 4\tC D\tc@x\n", "utf-16"
    )
    assert lms.write(out, ["canvas"], people).unmatched == []
    assert [row[0] for row in table(out / "grades-canvas.csv")[2:]] == ["B, A", "D, C"]


def test_cells_that_look_like_formulas_are_quoted(tmp_path: Path) -> None:
    who = [
        {"name": '=HYPERLINK("http://x")', "canvas id": "1"},
        {"name": "@SUM(A1)\n", "canvas id": "2"},
    ]
    out = report(tmp_path / "r", {"id": "a", "who": who}, {"id": "-2+3"})
    lms.write(out, lms.FORMATS)
    for path in out.glob("grades-*.csv"):
        for row in table(path):
            assert all(cell == "-" or cell[:1] not in "=+-@\t\r" or not cell for cell in row), row
            assert all("\n" not in cell for cell in row)


REFUSED = [  # a roster, what is named
    ("", "name or email"),
    ("foo,bar\n1,2\n", "name or email"),
    ("name\nJane\n", "submission, canvas id"),
    ("name,emial\nJane,a@b\n", "'emial'.*'email'"),
    ("name,ID,canvas id\nJane,1,2\n", "'canvas id'"),
    ("name,email\n", "no students"),
    ("name,email\nJane,a@b\nJohn,nobody\n", "line 3, column email: .*'nobody'"),
    ("name,canvas id\nJane,12\nJohn,x7\n", "line 3, column canvas id: .*'x7'"),
    ("name,canvas_id\nJane,12\n\nJohn,12\n", "line 4, column canvas id: '12' .*line 2"),
    ("name,submission\nJane,a\nJohn,b\nJane,a\n", "line 4: .*line 2"),
    ("name,email\nZoë,zo\u00eb@x.edu\nZoe,ZOE\u0308@x.edu\n", "line 3, column email: .*line 2"),
    ("name,sid\n,12\n", "line 2, column name"),
    ("name,sid\nDoe, Jane,12\n", "line 2: 3 cells"),
    ('name,sid\n"Jane,12\n', "line 2: "),
]


def test_what_cannot_be_used_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    out = report(tmp_path / "r", CANVAS)
    for text, named in REFUSED:
        with pytest.raises(ValueError, match=f"roster.csv.*{named}"):
            lms.write(out, ["canvas"], roster(tmp_path, text))
    with pytest.raises(ValueError, match="line 3: no UTF-8 text"):
        lms.write(out, ["canvas"], roster(tmp_path, "name,sid\nJane,1\nZöe,2\n", "latin-1"))
    with pytest.raises(ValueError, match="'blackboard'.* canvas, moodle, gradescope"):
        lms.write(out, ["blackboard"])
    with pytest.raises(FileNotFoundError, match="none.csv"):
        lms.write(out, ["canvas"], tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match="holds no report"):
        lms.write(tmp_path / "elsewhere", ["canvas"])
    assert not list(out.glob("grades-*"))


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\nname;sid\nJane;1\n",
        "name;sid;\r\nJane;1;\r\n;;\r\n",
        "name;sid;;; \r\nJane;1;;;\r\n;;;;\r\n",
        "name;sid\r\nJane;1;;;\r\n",
        "name; sid \n Jane ;\N{NO-BREAK SPACE}1\n",
        '"name","sid"\n"Jane","1"',
        '"name";"sid";"Comment, in words"\n"Jane";"1";"a, b"\n',
    ],
)
def test_as_excel_writes_tables(tmp_path: Path, text: str) -> None:
    people = rosters.read(roster(tmp_path, text, "utf-8-sig")).people
    assert [(p.name, p["sid"]) for p in people] == [("Jane", "1")]
    assert people[0].line == (3 if "sep" in text else 2)


def test_people_are_found_whatever_the_case_and_unicode_form(tmp_path: Path) -> None:
    kept = unicodedata.normalize("NFD", "Zoë")
    text = f"name,email,submission\n{kept},{kept}@x.edu,\nAl,al@x.edu,{kept} 4\n"
    index = Index(rosters.read(roster(tmp_path, text)).people)
    for who in ("zoë@X.edu", unicodedata.normalize("NFD", "ZOË@x.edu")):
        ((person, _),), wrong = index.of(Submission("s", submitters=[{"email": who}]))
        assert (person.line, wrong) == (2, [])
    assert [p.line for p, _ in index.of(Submission("zoë 4"))[0]] == [3]
