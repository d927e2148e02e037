"""Marks by a person: what they change, what survives, and what is said of a table that
cannot be right.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_lab import RIGHT, TESTS, Course, claim, contents, put
from typer.testing import CliRunner

from course_lib import cli
from course_lib.grading.batch import gradebook, manual_marks, summary
from course_lib.grading.batch.result import ClaimResult, Result
from course_lib.labs import Exercise, lab01

pytestmark = pytest.mark.usefixtures("warm")
WRONG = RIGHT.replace(">=", ">")  # loses 1.2


@pytest.fixture
def graded(course: Course) -> Course:
    """Three submissions: 3, 2 and 3 points of 3."""
    for name, answer in (("amy", RIGHT), ("bob", WRONG), ("=cy", RIGHT)):
        course.hand_in(name, answer)
    course.grade(seed=1)
    return course


def marks(course: Course, *lines: str) -> Path:
    path = course.report / "marks.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["id,question,points,comment", *lines]) + "\n", encoding="utf-8")
    return path


def test_how_many_rows_add_and_replace_is_said(graded: Course) -> None:
    marks(graded, 'bob,1.2,"+0.5",nearly', "amy,all,0,copied")
    said: list[str] = []
    graded.grade(say=said.append)
    (counted,) = said
    assert counted.endswith("rows: 1 added to the tests' points, 1 in their place, 0 remarks")


def test_points_are_added_or_replaced_and_survive(graded: Course) -> None:
    before = contents(graded.report)
    said: list[str] = []
    path = marks(
        graded,
        'bob,1.2,"+0,5","nearly: you meant >=, see the lecture"',
        "amy,1.1,1.5,<b>copied from the book</b>",
        "amy,1.2,,well done",
        "'=cy,1.1,-0.5,x",
    )
    done = graded.grade(say=said.append)
    assert (done.graded, sorted(done.kept)) == ([], ["=cy", "amy", "bob"])
    assert said == [f"{path}, rows: 2 added to the tests' points, 1 in their place, 1 remarks"]
    table = graded.table()
    assert (table["bob"]["1.2"], table["bob"]["maximum"]) == ("0.5", "3")
    assert (table["amy"]["1.1"], table["amy"]["1.2"]) == ("1.5", "1")
    totals = {"'=cy": "2.5", "amy": "2.5", "bob": "2.5"}
    assert graded.column("total") == totals
    bob, amy = graded.page("bob"), graded.page("amy")
    assert "nearly: you meant &gt;=, see the lecture" in bob and "+0.5" in bob
    assert "&lt;b&gt;copied from the book&lt;/b&gt;" in amy and "well done" in amy
    text = summary.write(graded.report).read_text(encoding="utf-8")
    assert "2.5 of 3" in text and "by a person" not in text.split("To look at")[0]
    # every way to grade again, also from another place
    graded.hand_in("bob", WRONG + "# handed in again\n")
    claim(graded.root, TESTS.replace("draw.normal(4, 6)", "draw.normal(6, 4)"))
    for again in ({}, {"regrade": ["amy"]}, {"regrade": ["bob"]}):
        graded.grade(**again)  # type: ignore[arg-type]
        assert graded.column("total") == totals
    claim(graded.root)
    graded.hand_in("bob", WRONG)
    marks(graded)  # no row: all as it was
    graded.grade()
    after = contents(graded.report)
    changed = ("batch.json", "summary.html")
    assert all(after[name] == data for name, data in before.items() if name not in changed)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no table of marks"):
        graded.grade()


REFUSED = [  # rows, what is named
    ("ammy,1.1,1,", "line 2: .*'ammy'.*'amy'"),
    ("nobody at all,1.1,1,", "line 2: .*'nobody at all'"),
    ("amy,1.7,1,", "line 2: .*'1.7'"),
    ("amy,1.1,2.5,", "line 2: 2.5 .* 2"),
    ("amy,1.1,+2.5,", r"line 2: \+2.5"),
    ("amy,1.1,-2.5,", "line 2: -2.5 .* at least -2"),
    ("amy,1.1,1,\namy,1.1,+1,", "line 3: amy .* line 2"),
    ("amy,1.1,two,", "line 2: 'two'"),
    ("amy,1.1,nan,", "line 2: 'nan'"),
    ("amy,1.1,,", "line 2: "),
    ("amy,1.1,21,4", "line 2: '21,4'.* 21.4"),
    ("amy,1.1,+0,5,nearly", r"line 2: '\+0,5'.*\+0.5"),
    ("amy,1.1,1,25,", "line 2: '1,25'.* 1.25"),
    ("amy,1.1,1,well, well", "line 2: 5 cells"),
    ("amie,1.1,1,\namy,1.1,3,\n,1.1,1,", "(?s)line 2: .*\n.*line 3: .*\n.*line 4: "),
    ("amy,1.12,6,", "line 2: 6 .* 5"),
]


def test_a_table_that_cannot_be_right_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "marks.csv"
    for lines, named in REFUSED:
        path.write_text(f"id,question,points,comment\n{lines}\n")
        with pytest.raises(ValueError, match=named) as caught:
            found = manual_marks.read(path)
            manual_marks.check(path, found, ["amy", "bob"], {"1.1": 2, "1.2": 1, "1.12": 5})
        assert "marks.csv" in str(caught.value)
    for text in ("", "amy,1.1,2,\n", "id,question,point\n", "id,question,points,points\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match="line 1: .* id, question, points, comment"):
            manual_marks.read(path)
    path.write_text("comment,id,question,points\nwell,amy,1.1,21,4\n")
    with pytest.raises(ValueError, match="line 2: '21,4'.* 21.4"):
        manual_marks.read(path)
    with pytest.raises(FileNotFoundError):
        manual_marks.read(tmp_path / "none.csv")


def test_a_table_is_refused_before_anything_is_graded(course: Course) -> None:
    course.hand_in("amy", RIGHT)
    with pytest.raises(ValueError, match="line 2: .*'ammy'"):
        course.grade(marks=marks(course, "ammy,1.1,1,"))
    assert not list((course.report / "results").iterdir())


def test_all_wrong_lines_are_said_before_torch_is_loaded(graded: Course) -> None:
    marks(graded, "ammy,1.1,1,", "amy,1.1,9,", "bob,7.1,1,", "bob,1.2,three,", "amy,1.2,0,5")
    code = "import sys; sys.modules['torch'] = None; from course_lib.cli import main; main()"
    paths = (graded.submissions, "--out", graded.report)
    done = subprocess.run(
        [sys.executable, "-c", code, "grade", "lab01", *map(str, paths)],
        capture_output=True,
        text=True,
    )
    lines = re.findall(r"line (\d)", done.stderr)
    assert (done.returncode, lines) == (1, ["2", "3", "4", "5", "6"]), done.stderr
    marks(graded, "amy,1.1,1,")
    manual_marks.check_before(graded.report, None, graded.submissions)


def test_what_may_be_right_by_now_is_left_to_the_run(
    graded: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that came with the lab's last change; a submission that is refused, whose id is
    the name of its file; a folder that is not there.
    """
    check = partial(manual_marks.check_before, graded.report, None)
    for name in ("doejane_12_34_a.ipynb", "roejohn_12_35_a.ipynb"):
        put(graded.submissions / name, "{}")
    marks(graded, "doejane_12_34_a.ipynb,all,0,")
    check(graded.submissions)
    marks(graded, "amy,1.99,1,")
    check(graded.root / "nowhere")
    with pytest.raises(ValueError, match=r"no question '1.99'"):
        check(graded.submissions)
    claims = graded.root / "course" / "tests" / "labs" / "lab01" / "hidden.py"
    put(claims, "# with 1.99", when=time.time() + 9)
    monkeypatch.setattr(manual_marks, "course_root", lambda: graded.root / "course")
    check(graded.submissions)
    put(graded.report / "batch.json", '{"lab": ')
    for read in (lambda: check(graded.submissions), graded.grade):
        with pytest.raises(ValueError, match="batch.json is damaged: give another folder"):
            read()


def test_a_refused_gradebook_hides_no_change(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "labs").mkdir(parents=True)
    course.tests.rename(tmp_path / "tests" / "labs" / "lab01")
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    course.hand_in("ann", RIGHT)
    table = put(tmp_path / "export:M:.csv", "Student,ID,Lab 1\n    Points Possible,,9\n")
    line = ["grade", "lab01", str(course.submissions), "--out", str(course.report), "--jobs", "1"]
    CliRunner().invoke(cli.app, line)
    put(course.report / "marks.csv", "id,question,points\nann,1.1,0\n")
    said = CliRunner().invoke(cli.app, [*line, "--gradebook", str(table)])
    assert "maximum is 9 points and the lab's 3" in str(said.exception)
    assert "ann from 3 to 1" in said.output and (course.report / "feedback.zip").is_file()


def test_a_table_as_excel_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "marks.csv"
    for text, mark in (
        ("ID;Question;Points\namy;1.10;2\n\n", manual_marks.Mark("amy", "1.10", 2, False, "", 2)),
        ("id;question;points;comment\namy;1.1;0,5;2\n", manual_marks.Mark("amy", "1.1", 0.5, False, "2", 2)),
        ('id,question,points\namy,1.1,"0,5"\n', manual_marks.Mark("amy", "1.1", 0.5, False, "", 2)),
    ):  # fmt: skip
        path.write_text(text)
        assert manual_marks.read(path) == [mark]


def test_ids_are_compared_whatever_their_unicode_form(tmp_path: Path) -> None:
    typed, kept = "zo\u00eb", "zoe\u0308"
    for one, other in ((typed, kept), (kept, typed)):
        mark = manual_marks.Mark(one, "1.1", 1.0, False, "", 2)
        assert manual_marks.check(tmp_path / "marks.csv", [mark], [other], {"1.1": 1}) == {
            other: [mark]
        }


def test_a_question_that_only_a_person_marks(
    graded: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lab01.lab._exercises, "1.12", Exercise((), by_hand=5))
    who = [{"canvas id": "1", "name": "amy", "moodle id": "7", "email": "amy@x.edu"}]
    marks(graded, "bob,1.12,,read it with pleasure")
    graded.grade()
    # whose they are, as from a system's names
    for path in (graded.report / "results").glob("*.json"):
        result = json.loads(path.read_text())
        result["extra_data"]["submitters"] = who if result["extra_data"]["id"] == "amy" else []
        path.write_text(json.dumps(result))
    table = graded.table()
    assert {cell for row in table.values() for cell in (row["1.12"], row["status"])} == {"pending"}
    assert (table["amy"]["total"], table["amy"]["maximum"]) == ("3", "8")
    page = graded.page("amy")
    assert "1.12 is still to be marked by a person" in page and "pending / 5" in page
    assert "read it with pleasure" in graded.page("bob")
    text = summary.write(graded.report).read_text(encoding="utf-8")
    assert "<b>1.12</b> is a person's to mark, and 3 submissions wait for it" in text
    assert "1.12</b> (" not in text.split("Nobody has")[-1].split("</p>")[0]

    exported = graded.root / "moodle.csv"
    exported.write_text("Identifier,Bewertung\nTeilnehmer/in7,")
    _, unmatched = gradebook.fill(graded.report, exported, "Bewertung")
    assert sum("no grade until a person has decided" in line for line in unmatched) == 3
    assert graded.table("gradebook.csv")["Teilnehmer/in7"]["Bewertung"] == ""
    gradebook.fill(graded.report, exported, "Bewertung", pending_as_zero=True)
    assert graded.table("gradebook.csv")["Teilnehmer/in7"]["Bewertung"] == "3"
    marks(graded, "amy,1.12,4,", "bob,1.12,+2.5,", "=cy,1.12,0,empty")
    graded.grade()
    assert graded.column("1.12") == {"'=cy": "0", "amy": "4", "bob": "2.5"}
    assert graded.column("total") == {"'=cy": "3", "amy": "7", "bob": "4.5"}
    assert set(graded.column("status").values()) == {"graded"}
    assert "pending" not in graded.page("amy")


points = st.sampled_from([None, 0.0, 0.5, 1.0, -0.5, -2.0, 3.0])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.booleans(), max_size=4), st.sampled_from([0.0, 2.0]), points, st.booleans())
def test_a_question_keeps_between_nothing_and_its_maximum(
    passed: list[bool], waiting: float, given: float | None, adds: bool
) -> None:
    tests = [
        ClaimResult("1.1", "1.1 c", float(p), 1.0, "passed" if p else "failed") for p in passed
    ]
    mark = manual_marks.Mark("amy", "1.1", given, adds, "well", 2)
    asked = {"1.1": waiting} if waiting else {}
    done = manual_marks.merge(tests, [mark], asked)
    assert manual_marks.merge(done, [mark], asked) == done  # as often as it is graded
    assert [entry for entry in done if not entry.by_hand] == tests
    result, most = Result("amy", "amy", tuple(done)), len(passed) + waiting
    assert result.max_score == most and 0 <= result.score <= most
    wanted = sum(passed) if given is None else given + sum(passed) * adds
    assert result.score == min(max(wanted, 0), most)
    assert bool(result.pending) == bool(waiting and given is None)
    assert manual_marks.merge(done, [], {}) == tests
