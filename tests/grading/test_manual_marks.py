"""Marks by a person: what they change, what survives, and what is said of a table that
cannot be right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_lab import RIGHT, TESTS, claim, contents, hand_in, read_table

from course_lib.grading.batch import manual_marks, summary
from course_lib.grading.batch import run as batch
from course_lib.grading.batch import upload as lms
from course_lib.grading.batch.result import Entry, Result
from course_lib.labs import Exercise, lab01

pytestmark = pytest.mark.usefixtures("warm")
WRONG = RIGHT.replace(">=", ">")  # loses 1.2


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the tests of a small lab and three submissions: 3, 2 and 3 points
    of 3.
    """
    (tmp_path / "submissions").mkdir()
    claim(tmp_path)
    for name, answer in (("amy", RIGHT), ("bob", WRONG), ("=cy", RIGHT)):
        hand_in(tmp_path / "submissions", name, answer)
    return tmp_path


def grade(place: Path, **settings: Any) -> batch.Batch:
    tests = place / "lab01"
    return batch.grade(
        "lab01", place / "submissions", place / "report", tests=tests, seed=1, jobs=1, **settings
    )


def page(place: Path, id: str) -> str:
    return (place / "report" / "feedback" / f"{id}.html").read_text(encoding="utf-8")


def marks(place: Path, *lines: str, name: str = "marks.csv") -> Path:
    path = place / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["id,question,points,comment", *lines]) + "\n", encoding="utf-8")
    return path


def test_points_are_added_or_replaced_and_survive(place: Path) -> None:
    grade(place)
    before = contents(place / "report")
    said: list[str] = []
    path = marks(
        place,
        'bob,1.2,"+0,5","nearly: you meant >=, see the lecture"',
        "amy,1.1,1.5,<b>copied from the book</b>",
        "amy,1.2,,well done",
        "'=cy,1.1,-5e-1,x".replace("-5e-1", "-0.5"),
    )
    done = grade(place, marks=path, say=said.append)
    assert (done.graded, sorted(done.kept)) == ([], ["=cy", "amy", "bob"])
    assert said == [f"{path}, rows: 2 added to the tests' points, 1 in their place, 1 remarks"]
    table = read_table(place / "report")
    assert (table["bob"]["1.2"], table["bob"]["total"], table["bob"]["maximum"]) == (
        "0.5",
        "2.5",
        "3",
    )
    assert (table["amy"]["1.1"], table["amy"]["1.2"], table["amy"]["total"]) == ("1.5", "1", "2.5")
    assert table["'=cy"]["total"] == "2.5"
    assert "nearly: you meant &gt;=, see the lecture" in page(place, "bob") and "+0.5" in page(
        place, "bob"
    )
    assert "&lt;b&gt;copied from the book&lt;/b&gt;" in page(place, "amy") and "well done" in page(
        place, "amy"
    )
    text = summary.write(place / "report").read_text(encoding="utf-8")
    assert "2.5 of 3" in text and "by a person" not in text.split("To look at")[0]
    lms.write(place / "report", ["moodle", "gradescope", "canvas"])
    # every way to grade again
    hand_in(place / "submissions", "bob", WRONG + "# handed in again\n")
    claim(place, TESTS.replace("draw.normal(4, 6)", "draw.normal(6, 4)"))
    for again in ({}, {"regrade": ["amy"]}, {"regrade": ["bob"]}):
        grade(place, **again)  # type: ignore[arg-type]
        assert {id: row["total"] for id, row in read_table(place / "report").items()} == {
            "amy": "2.5",
            "bob": "2.5",
            "'=cy": "2.5",
        }
    claim(place)
    hand_in(place / "submissions", "bob", WRONG)
    marks(place)  # no row: all as it was
    grade(place)
    after = contents(place / "report")
    assert {name: after[name] for name in before if name != "batch.json"} == {
        name: data for name, data in before.items() if name != "batch.json"
    }
    path.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"marks.csv is not there, and was at the last grading: put it back"
    ):
        grade(place)


def test_the_table_in_the_reports_folder_is_taken(place: Path) -> None:
    marks(place, "bob,1.2,1,", name="report/marks.csv")
    grade(place)
    assert read_table(place / "report")["bob"]["total"] == "3"
    marks(place, "bob,1.2,0.25,", name="report/marks.csv")
    grade(place)
    assert read_table(place / "report")["bob"]["total"] == "2.25"
    (place / "report").rename(place / "moved")
    (place / "moved").rename(place / "report")
    grade(place)
    assert read_table(place / "report")["bob"]["total"] == "2.25"


@pytest.mark.parametrize(
    "line, said",
    [
        ("ammy,1.1,1,", "line 2: there is no submission 'ammy': did you mean 'amy'?"),
        (
            "nobody at all,1.1,1,",
            "line 2: there is no submission 'nobody at all': write the id as grades.csv has it, or take",
        ),
        ("amy,1.7,1,", "line 2: there is no question '1.7': there are 1.1, 1.2"),
        ("amy,1.1,2.5,", "line 2: 2.5 points, but 1.1 has 2: write at most 2"),
        ("amy,1.1,+2.5,", r"line 2: \+2.5 points, but 1.1 has 2"),
        ("amy,1.1,-2.5,", "line 2: -2.5 points, but 1.1 has 2"),
        (
            "amy,1.1,1,\namy,1.1,+1,",
            "line 3: amy has a row for 1.1 in line 2 already: make one of the two",
        ),
        ("amy,1.1,two,", "line 2: 'two' are no points: write 2, \\+1 or -0.5"),
        ("amy,1.1,nan,", "line 2: 'nan' are no points"),
        ("amy,1.1,,", "line 2: neither points nor a comment"),
        ("amy,1.1,21,4", "marks.csv, line 2: '21,4'.*write 21.4, with a point"),
        ("amy,1.1,+0,5,nearly", r"marks.csv, line 2: '\+0,5'.*write \+0.5, with a point"),
        ("amy,1.1,1,25,", "marks.csv, line 2: '1,25'.*write 1.25, with a point"),
        (
            "amy,1.1,1,well, well",
            "line 2: 5 cells, but the heading has 4: put a comment with a comma in quotes",
        ),
        (
            "amie,1.1,1,\namy,1.1,3,\n,1.1,1,",
            "(?s)line 2: .*\n.*line 3: .*\n.*line 4: there is no submission ''",
        ),
    ],
)
def test_a_table_that_cannot_be_right_is_refused_before_anything_is_graded(
    place: Path, line: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        grade(place, marks=marks(place, line))
    assert not list((place / "report").glob("results/*"))


def test_a_table_without_its_heading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "marks.csv"
    for text in ("", "amy,1.1,2,\n", "id,question,point\n", "id,question,points,points\n"):
        path.write_text(text)
        with pytest.raises(
            ValueError,
            match="line 1: the heading is .*; expected are id, question, points, comment",
        ):
            manual_marks.read(path)
    path.write_text("ID;Question;Points\namy;1.10;2\n\n")  # as Excel writes it
    assert manual_marks.read(path) == [manual_marks.Mark("amy", "1.10", 2.0, False, "", 2)]
    with pytest.raises(FileNotFoundError, match="no table of marks"):
        manual_marks.read(tmp_path / "none.csv")


def test_points_with_a_comma_in_one_cell_are_points(tmp_path: Path) -> None:
    path = tmp_path / "marks.csv"
    for text in (
        "id;question;points;comment\namy;1.1;0,5;2\n",
        'id,question,points\namy,1.1,"0,5"\n',
    ):
        path.write_text(text)
        assert [mark.points for mark in manual_marks.read(path)] == [0.5]
    path.write_text("comment,id,question,points\nwell,amy,1.1,21,4\n")
    with pytest.raises(ValueError, match="line 2: '21,4'.*write 21.4, with a point"):
        manual_marks.read(path)


def test_ids_are_compared_whatever_their_unicode_form(tmp_path: Path) -> None:
    typed, kept = "zo\u00eb", "zoe\u0308"
    for one, other in ((typed, kept), (kept, typed)):
        mark = manual_marks.Mark(one, "1.1", 1.0, False, "", 2)
        assert manual_marks.check(tmp_path / "marks.csv", [mark], [other], {"1.1": 1}) == {
            other: [mark]
        }


def test_a_question_that_only_a_person_marks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lab01.lab._exercises, "1.12", Exercise((), by_hand=5))
    who = [{"canvas id": "1", "name": "amy", "moodle id": "7", "email": "amy@x.edu"}]
    done = grade(place, marks=marks(place, "bob,1.12,,read it with pleasure"))
    # whose they are, as from a system's names
    for path in (done.report / "results").glob("*.json"):
        result = json.loads(path.read_text())
        result["extra_data"]["submitters"] = who if result["extra_data"]["id"] == "amy" else []
        path.write_text(json.dumps(result))
    table = read_table(place / "report")
    assert (
        {row["1.12"] for row in table.values()}
        == {row["status"] for row in table.values()}
        == {"pending"}
    )
    assert (table["amy"]["total"], table["amy"]["maximum"]) == ("3", "8")
    assert "1.12 is still to be marked by a person" in page(place, "amy") and "pending / 5" in page(
        place, "amy"
    )
    assert "read it with pleasure" in page(place, "bob")
    text = summary.write(done.report).read_text(encoding="utf-8")
    assert "<b>1.12</b> is a person's to mark, and 3 submissions wait for it" in text
    assert "1.12</b> (" not in text.split("Nobody has")[-1].split("</p>")[0]
    written = lms.write(done.report, lms.FORMATS)
    assert (
        sum(
            "1.12 is pending: a person marks it, in marks.csv" in line for line in written.unmatched
        )
        == 3
    )
    assert (
        len(read_table(place / "report", "grades-canvas.csv")) == 1
    )  # the maximum; nobody has a grade yet
    moodle = read_table(place / "report", "grades-moodle.csv")["Participant 7"]
    assert (moodle["Grade"], "1.12: pending of 5" in moodle["Feedback comments"]) == ("", True)
    gradescope = read_table(place / "report", "grades-gradescope.csv")[
        ""
    ]  # who has one name has no first one
    assert (gradescope["Status"], gradescope["Total Score"], gradescope["1.12 (5 pts)"]) == (
        "Pending",
        "",
        "pending",
    )
    lms.write(done.report, ["moodle", "gradescope"], pending_as_zero=True)
    moodle = read_table(place / "report", "grades-moodle.csv")["Participant 7"]
    assert (moodle["Grade"], "1.12: 0 of 5" in moodle["Feedback comments"]) == ("3", True)
    gradescope = read_table(place / "report", "grades-gradescope.csv")[""]
    assert (gradescope["Status"], gradescope["Total Score"], gradescope["1.12 (5 pts)"]) == (
        "Graded",
        "3",
        "0",
    )
    grade(place, marks=marks(place, "amy,1.12,4,", "bob,1.12,+2.5,", "=cy,1.12,0,empty"))
    table = read_table(place / "report")
    assert [table[id]["1.12"] for id in ("amy", "bob", "'=cy")] == ["4", "2.5", "0"]
    assert [table[id]["total"] for id in ("amy", "bob", "'=cy")] == ["7", "4.5", "3"]
    assert {row["status"] for row in table.values()} == {"graded"} and "pending" not in page(
        place, "amy"
    )
    with pytest.raises(ValueError, match="6 points, but 1.12 has 5"):
        grade(place, marks=marks(place, "amy,1.12,6,"))


points = st.sampled_from([None, 0.0, 0.5, 1.0, -0.5, -2.0, 3.0])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.booleans(), max_size=4), st.sampled_from([0.0, 2.0]), points, st.booleans())
def test_a_question_keeps_between_nothing_and_its_maximum(
    passed: list[bool], waiting: float, given: float | None, adds: bool
) -> None:
    tests = [Entry("1.1", "1.1 c", float(p), 1.0, "passed" if p else "failed") for p in passed]
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
