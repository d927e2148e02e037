"""Deadlines: what is late by how much, what it costs beside the points, and which
policies are refused.
"""

from __future__ import annotations

import csv
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from small_lab import RIGHT, claim, contents, hand_in, notebook

from course_lib.grading.batch import policy, summary
from course_lib.grading.batch import run as batch
from course_lib.grading.batch import upload as lms
from course_lib.grading.batch.collect import Handed

GOOD = """
deadline = 2026-10-12T23:59:00
timezone = "Europe/Berlin"
grace = 15
penalty = 10
late_days = 1
[extensions]
kim = 2026-10-15T12:00:00
"LEE@x.edu" = 2
"""
DUE = datetime(2026, 10, 12, 21, 59, tzinfo=UTC)


def write(folder: Path, text: str = GOOD) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def handed(id: str, after: timedelta | None, **more: Any) -> Handed:
    return Handed(id, time=(DUE + after).timestamp() if after is not None else None, **more)


@pytest.mark.parametrize(
    "after, days, free, penalty",
    [
        (timedelta(days=-3), 0, 0, 0),
        (timedelta(0), 0, 0, 0),
        (timedelta(minutes=15), 0, 0, 0),  # grace
        (timedelta(minutes=15, seconds=1), 1, 1, 0),
        (timedelta(days=1), 1, 1, 0),
        (timedelta(days=1, seconds=1), 2, 1, 10),
        (timedelta(days=5), 5, 1, 40),
        (timedelta(days=40), 40, 1, 100),
    ],
)
def test_days_late_days_and_penalty(
    tmp_path: Path, after: timedelta, days: int, free: int, penalty: float
) -> None:
    rules = policy.read(write(tmp_path))
    others = [handed("kim", None), handed("x", None, submitters=[{"email": "lee@x.edu"}])]
    case = policy.cases(rules, [handed("amy", after), *others])["amy"]
    assert (case.days, case.late_days, case.penalty) == (days, free, penalty)
    told = case.told(8.0)
    assert told["after"] == pytest.approx(8 * (1 - penalty / 100)) and told["days"] == days
    assert policy.cells(told)[1:4] == [str(days), str(free), f"{penalty:g} %"]
    assert ("late" in told["said"]) is (days > 0) and "2026-10-12 23:59 +0200" in told["said"]
    hours = max(after, timedelta(0)) // timedelta(hours=1)
    assert told["late"].split(":")[0] == str(hours)


def test_extensions_by_time_and_by_days(tmp_path: Path) -> None:
    rules = policy.read(write(tmp_path))
    lee = [{"name": "Lee", "email": "lee@X.edu"}]
    found = policy.cases(
        rules,
        [
            handed("Kim", timedelta(days=2)),
            handed("s 9", timedelta(days=2, hours=1), submitters=lee),
        ],
    )
    assert (found["Kim"].days, found["s 9"].days) == (0, 1)
    assert found["s 9"].due == DUE + timedelta(days=2)
    # never shortens
    earlier = policy.read(write(tmp_path, GOOD.replace("2026-10-15", "2026-10-01")))
    assert (
        policy.cases(earlier, [handed("kim", timedelta(0)), handed("s", None, submitters=lee)])[
            "kim"
        ].days
        == 0
    )


def test_what_is_not_known_is_said_and_costs_nothing(tmp_path: Path) -> None:
    rules = policy.read(write(tmp_path, "deadline = 2026-10-12T23:59:00+02:00\npenalty = 10\n"))
    found = policy.cases(
        rules,
        [
            handed("late", None, late=True),
            handed("in time", None, late=False),
            handed("who knows", None),
        ],
    )
    assert {id: case.days for id, case in found.items()} == {
        "late": None,
        "in time": 0,
        "who knows": None,
    }
    assert (
        "late by the system's word, which does not say by how much" in found["late"].told(5)["said"]
    )
    assert "whether it is late is not known" in found["who knows"].told(5)["said"]
    assert policy.cells(found["late"].told(5)) == ["", "?", "?", "?", "?"]
    times = '[times]\nlate = 2026-10-13T12:00:00+02:00\n"who knows" = "2026-10-12 10:00 +0200"\n'
    rules = policy.read(write(tmp_path, f"deadline = 2026-10-12T23:59:00+02:00\n{times}"))
    found = policy.cases(rules, [handed("late", None, late=True), handed("who knows", None)])
    assert (found["late"].days, found["who knows"].days) == (1, 0)


@pytest.mark.parametrize(
    "text, said",
    [
        ("penalty = 10", "there is no deadline: write one, such as deadline = 2026-10-12T23:59:00"),
        ("", "there is no deadline"),
        ("deadline = 2026-10-12T23:59:00Z\nlatedays = 2", "there is no key 'latedays': did you mean late_days"),
        ("deadline = 2026-10-12T23:59:00Z\nxyz = 2", "there is no key 'xyz': there are deadline, timezone"),
        ("deadline = 2026-10-12", "deadline is a day without a time: write 2026-10-12T23:59:00"),
        ("deadline = 'soon'", "deadline is no time"),
        ("deadline = 2026-10-12T23:59:00", 'deadline has no time zone: write timezone = "Europe/Berlin"'),
        ("deadline = 2026-10-12T23:59:00\ntimezone = 'Mars'", "there is no timezone 'Mars'"),
        ("deadline = 2026-10-12T23:59:00Z\npenalty = 120", "penalty is 120: a number of per cent a day is expected, from 0 to 100"),
        ("deadline = 2026-10-12T23:59:00Z\npenalty = true", "penalty is True"),
        ("deadline = 2026-10-12T23:59:00Z\ngrace = -1", "grace is -1: a number of minutes"),
        ("deadline = 2026-10-12T23:59:00Z\nlate_days = 1.5", "late_days is 1.5: a whole number of days"),
        ("deadline = 2026-10-12T23:59:00Z\nextensions = 3", "extensions is 3: a table is expected"),
        ("deadline = 2026-10-12T23:59:00Z\n[extensions]\namy = 'x'", "extensions, amy is no time"),
        ("deadline = 2026-10-12T23:59:00Z\n[extensions]\namy = -1", "extensions, amy is -1: a whole number"),
        ("deadline = 2026-10-12T23:59:00Z\nearlier = 'x'", "earlier is 'x': a list of reports"),
        ("deadline = 2026-10-12T23:59:00Z\nearlier = ['x']", "earlier names x, where no report is"),
        ("deadline = ", "is no TOML"),
        ("deadline = 2026-10-12T23:59:00Z\n[extensions]\namie = 2", "extensions: there is nobody 'amie'.*--roster"),
        ("deadline = 2026-10-12T23:59:00Z\n[extensions]\nammy = 2", "there is nobody 'ammy': did you mean 'amy'"),
        ("deadline = 2026-10-12T23:59:00Z\n[times]\nbob = 2026-10-12T23:59:00Z", "times: there is nobody 'bob'"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        policy.cases(policy.read(write(tmp_path, text)), [handed("amy", None)])
    assert "policy.toml" in str(caught.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Wednesday, 1 May 2024, 10:00 AM", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("2024-05-01 10:00:00 +0200", datetime(2024, 5, 1, 8, tzinfo=UTC)),
        ("2024-05-01 10:00", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("2024-05-01T10:00:00Z", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("-", None),
        ("Mittwoch, 1. Mai 2024, 10:00", None),
    ],
)
def test_times_as_systems_write_them(text: str, expected: datetime | None) -> None:
    assert policy.moment(text, UTC) == expected


# --- in a report ----------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "submissions").mkdir()
    claim(tmp_path)
    for name, when in (
        ("amy", "2026-10-12T20-00-00"),
        ("bob", "2026-10-14T08-00-00"),
        ("cy", "2026-10-20T08-00-00"),
    ):
        folder = tmp_path / "submissions" / name / when
        folder.mkdir(parents=True)
        hand_in(folder, "lab01", RIGHT)
    (tmp_path / "submissions" / "doejane_LATE_12_99_lab01.ipynb").write_text(notebook(RIGHT))
    (tmp_path / "submissions" / "roejohn_13_98_lab01.ipynb").write_text(notebook(RIGHT))
    return tmp_path


def grade(place: Path, **settings: Any) -> batch.Batch:
    tests = place / "lab01"
    return batch.grade(
        "lab01", place / "submissions", place / "report", tests=tests, seed=1, jobs=1, **settings
    )


def rows(place: Path) -> dict[str, dict[str, str]]:
    with open(place / "report" / "grades.csv", newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


@pytest.mark.usefixtures("warm")
def test_a_policy_stands_beside_the_points(place: Path) -> None:
    grade(place)
    before = contents(place / "report")
    assert "days late" not in rows(place)["amy"]
    rules = write(place, GOOD.split("[ext")[0] + "[extensions]\n13 = 3\n")  # by Canvas's number
    done = grade(place, policy=rules)
    assert done.graded == []  # nothing had to be marked
    assert done.remarks[:2] == [
        "2 came late by the policy: the columns behind the points say what follows",
        "of 1 nothing says when they were handed in: write it under [times] of the policy, or give a roster that has it",
    ]
    table = rows(place)
    assert {row["total"] for row in table.values()} == {"3"}
    columns = ("days late", "late days", "penalty", "after penalty")
    assert {id: [row[c] for c in columns] for id, row in table.items()} == {
        "amy": ["0", "0", "0 %", "3"],
        "bob": ["2", "1", "10 %", "2.7"],
        "cy": ["8", "1", "70 %", "0.9"],
        "doejane_12": ["?", "?", "?", "?"],
        "roejohn_13": ["0", "0", "0 %", "3"],
    }
    assert table["bob"]["handed in"] == "2026-10-14 10:00 +0200"
    page = (place / "report" / "feedback" / "bob.html").read_text(encoding="utf-8")
    assert (
        "2 days late (due 2026-10-12 23:59 +0200); 1 late day used; after a penalty of 10 % 2.7 points"
        in page
    )
    assert "<b>3</b> of 3 points" in page
    text = summary.write(place / "report").read_text(encoding="utf-8")
    late = text[text.index("<h3>Late</h3>") :].split("</table>")[0]
    assert [name in late for name in ("amy", "bob", "cy", "doejane_12", "roejohn_13")] == [
        False,
        True,
        True,
        True,
        False,
    ]
    roster = place / "roster.csv"
    roster.write_text("name,email,submission\nBob,b@x.edu,bob\nCy,c@x.edu,cy\n")
    lms.write(place / "report", ["gradescope"], roster)
    with open(place / "report" / "grades-gradescope.csv", newline="", encoding="utf-8") as file:
        bob = next(row for row in csv.DictReader(file) if row["Email"] == "b@x.edu")
    assert (bob["Total Score"], bob["Lateness (H:M:S)"], bob["Submission Time"][:10]) == (
        "3",
        "34:01:00",
        "2026-10-14",
    )
    # again without naming it; and when marks change, what is after the penalty does
    (place / "report" / "marks.csv").write_text("id,question,points\nbob,1.1,1\n")
    assert grade(place).graded == []
    assert (rows(place)["bob"]["total"], rows(place)["bob"]["after penalty"]) == ("2", "1.8")
    (place / "report" / "marks.csv").write_text("id,question,points\n")
    about = json.loads((place / "report" / "batch.json").read_text())
    assert about.pop("policy") == os.path.join("..", "policy.toml")
    (place / "report" / "batch.json").write_text(json.dumps(about))
    grade(place)
    after = contents(place / "report")
    assert {k: v for k, v in after.items() if k in before and k != "batch.json"} == {
        k: v for k, v in before.items() if k != "batch.json"
    }


@pytest.mark.usefixtures("warm")
def test_late_days_are_those_of_a_term(place: Path) -> None:
    grade(
        place, policy=write(place, GOOD.split("[ext")[0].replace("late_days = 1", "late_days = 3"))
    )
    assert [rows(place)[id]["late days"] for id in ("amy", "bob", "cy")] == ["0", "2", "3"]
    (place / "report").rename(place / "report01")
    again = GOOD.split("[ext")[0].replace("late_days = 1", 'late_days = 3\nearlier = ["report01"]')
    grade(place, policy=write(place, again))
    assert [rows(place)[id]["late days"] for id in ("amy", "bob", "cy")] == ["0", "1", "0"]
    assert [rows(place)[id]["penalty"] for id in ("amy", "bob", "cy")] == ["0 %", "10 %", "80 %"]


@pytest.mark.usefixtures("warm")
def test_times_and_students_of_a_roster(place: Path) -> None:
    rules = write(
        place, "deadline = 2026-10-12T23:59:00Z\n[extensions]\n'nobody@x.edu' = 3\n'JJ@x.edu' = 1\n"
    )
    with pytest.raises(ValueError, match="there is nobody 'nobody@x.edu'"):
        grade(place, policy=rules)
    assert not list((place / "report" / "results").iterdir())  # before anything is graded
    roster = place / "moodle.csv"
    roster.write_text(
        "name,email,canvas id,Last modified (submission)\n"
        'Jane Doe,jd@x.edu,12,"Thursday, 15 October 2026, 10:00 AM"\n'
        'John Roe,jj@x.edu,13,"Tuesday, 13 October 2026, 10:00 AM"\n'
        "Nobody Yet,nobody@x.edu,14,-\n"
    )
    grade(place, policy=rules, roster=roster)
    assert {id: row["days late"] for id, row in rows(place).items()} == {
        "amy": "0", "bob": "2", "cy": "8", "doejane_12": "3", "roejohn_13": "0",
    }  # fmt: skip
    grade(place)  # the roster is remembered, too
    assert rows(place)["doejane_12"]["days late"] == "3"
