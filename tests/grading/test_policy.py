"""Deadlines: what is late by how much, what it costs beside the points, and which
policies are refused.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_lab import RIGHT, Course, contents

from course_lib.grading.batch import policy, summary, times
from course_lib.grading.batch import roster as rosters
from course_lib.grading.batch import upload as lms
from course_lib.grading.batch.submission import Submission

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


def handed(id: str, after: timedelta | None = None, **more: Any) -> Submission:
    return Submission(id, time=(DUE + after).timestamp() if after is not None else None, **more)


def judge(folder: Path, text: str, *submissions: Submission) -> dict[str, policy.Case]:
    """What a policy of this text says of submissions."""
    return policy.cases(policy.read(write(folder, text)), submissions)


@pytest.mark.parametrize(
    "after, days, free, penalty",
    [
        (timedelta(days=-3), 0, 0, 0),
        (timedelta(seconds=59), 0, 0, 0),  # in the deadline's minute
        (timedelta(minutes=15, seconds=59), 0, 0, 0),  # grace
        (timedelta(minutes=16), 1, 1, 0),
        (timedelta(days=1, seconds=59), 1, 1, 0),
        (timedelta(days=1, minutes=1), 2, 1, 10),
        (timedelta(days=5), 5, 1, 40),
        (timedelta(days=40), 40, 1, 100),
    ],
)
def test_days_late_days_and_penalty(
    tmp_path: Path, after: timedelta, days: int, free: int, penalty: float
) -> None:
    others = [handed("kim"), handed("x", submitters=[{"email": "lee@x.edu"}])]
    case = judge(tmp_path, GOOD, handed("amy", after), *others)["amy"]
    assert (case.days, case.late_days, case.penalty) == (days, free, penalty)
    told = case.lateness_report(8.0)
    assert told["after"] == pytest.approx(8 * (1 - penalty / 100)) and told["days"] == days
    assert policy.cells(told, False)[1:4] == [str(days), str(free), f"{penalty:g} %"]
    assert ("late" in told["said"]) is (days > 0) and "2026-10-12 23:59 +0200" in told["said"]
    hours = max(after, timedelta(0)) // timedelta(hours=1)
    assert told["late"].split(":")[0] == str(hours)


def test_extensions_by_time_and_by_days(tmp_path: Path) -> None:
    lee = [{"name": "Lee", "email": "lee@X.edu"}]
    kim, late = handed("Kim", timedelta(days=2)), timedelta(days=2, hours=1)
    found = judge(tmp_path, GOOD, kim, handed("s 9", late, submitters=lee))
    assert (found["Kim"].days, found["s 9"].days) == (0, 1)
    assert found["s 9"].due == DUE + timedelta(days=2)
    # never shortens
    earlier, kim = GOOD.replace("2026-10-15", "2026-10-01"), handed("kim", timedelta(0))
    assert judge(tmp_path, earlier, kim, handed("s", submitters=lee))["kim"].days == 0


def test_what_is_not_known_is_said_and_costs_nothing(tmp_path: Path) -> None:
    text = "deadline = 2026-10-12T23:59:00+02:00\npenalty = 10\n"
    all = [handed("late", late=True), handed("in time", late=False), handed("unknown")]
    found = judge(tmp_path, text, *all)
    assert {id: case.days for id, case in found.items()} == {"late": None, "in time": 0, "unknown": None}  # fmt: skip
    late = found["late"].lateness_report(5)
    assert "late by the system's word, which does not say by how much" in late["said"]
    assert "whether it is late is not known" in found["unknown"].lateness_report(5)["said"]
    assert policy.cells(late, False) == ["", "?", "?", "?", "?"]
    times = '[times]\nlate = 2026-10-13T12:00:00+02:00\n"unknown" = "2026-10-12 10:00 +0200"\n'
    found = judge(tmp_path, text + times, *all)
    assert (found["late"].days, found["unknown"].days) == (1, 0)


DUE_TOML = "deadline = 2026-10-12T23:59:00Z\n"
BERLIN = 'timezone = "Europe/Berlin"\n'
REFUSED = [  # a policy, what is named
    ("penalty = 10", "deadline"),
    ("", "deadline"),
    (f"{DUE_TOML}latedays = 2", "'latedays'.*late_days"),
    (f"{DUE_TOML}xyz = 2", "'xyz'.*deadline, timezone"),
    ("deadline = 2026-10-12", "deadline .*2026-10-12T23:59:00"),
    ("deadline = 'soon'", "deadline: 'soon'"),
    ("deadline = 2026-10-12T23:59:00", "deadline .*timezone"),
    ("deadline = 2026-10-12T23:59:00\ntimezone = 'Mars'", "'Mars'"),
    ("deadline = 0226-10-12T23:59:00Z", "deadline.*year"),
    (f"deadline = '03/04/2026 20:00'\n{BERLIN}", "deadline.*2026-03-04 20:00 or 2026-04-03"),
    (f"deadline = '24.10.2026 20:00 EST'\n{BERLIN}", "deadline.*EST"),
    ("deadline = ", "is no TOML"),
    ("deadline = 12.10.2026 23:59", "is no TOML"),
    (f"{DUE_TOML}penalty = 0,1", "is no TOML"),
    (f"{DUE_TOML}penalty = 120", "penalty is 120: .* 0 to 100"),
    (f"{DUE_TOML}penalty = true", "penalty is True"),
    (f"{DUE_TOML}penalty = nan", "penalty is nan"),
    (f"{DUE_TOML}grace = -1", "grace is -1"),
    (f"{DUE_TOML}late_days = 1.5", "late_days is 1.5: a whole number"),
    (f"{DUE_TOML}earlier = 'x'", "earlier is 'x'"),
    (f"{DUE_TOML}earlier = ['x']", "earlier names x"),
    (f"{DUE_TOML}extensions = 3", "extensions is 3"),
    (f"{DUE_TOML}[extensions]\namy = 'x'", "extensions, amy: 'x'"),
    (f"{DUE_TOML}[extensions]\namy = -1", "extensions, amy is -1"),
    (f"{DUE_TOML}[extensions]\namie = 2", "extensions: .*'amie'"),
    (f"{DUE_TOML}[extensions]\nammy = 2", "'ammy'.*'amy'"),
    (f"{DUE_TOML}[extensions]\n'A@x.edu' = 1\n'a@X.edu' = 2", "extensions.*'a@X.edu'.*twice"),
    (f"{DUE_TOML}[times]\nbob = 2026-10-12T23:59:00Z", "times: .*'bob'"),
    (f"{DUE_TOML}[times]\namy = 'at noon'", "times, amy.*'at noon'"),
    # times that the clocks skip
    (f"{BERLIN}deadline = 2027-03-28T02:30:00", "deadline.*01:59 or 2027-03-28 03:00"),
    (f"{BERLIN}deadline = '28.03.2027 02:30'", "deadline.*01:59 or 2027-03-28 03:00"),
    (f"{BERLIN}deadline = 2027-03-27T20:00:00\n[extensions]\namy = 2027-03-28T02:30:00", "extensions, amy.*01:59 or"),
    (f"{BERLIN}deadline = 2027-03-27T02:30:00\n[extensions]\namy = 1", "extensions, amy.*01:59 or"),
    (f"{BERLIN}deadline = 2027-03-27T02:30:00\n[times]\namy = 2027-03-28T02:30:00", "times, amy.*01:59 or"),
]  # fmt: skip


def test_a_policy_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for text, named in REFUSED:
        with pytest.raises(ValueError, match=f"policy.toml.*{named}"):
            judge(tmp_path, text, handed("amy"))


# --- a day is a day of the calendar ---------------------------------------------------


def days_late(folder: Path, deadline: str, zone: str, when: str) -> int | None:
    """By the policy's file, of a student who handed in when the zone's clocks showed a
    time, as a system recorded it.
    """
    time = datetime.fromisoformat(when)
    time = time if time.tzinfo else time.replace(tzinfo=ZoneInfo(zone))
    text = f"deadline = {deadline}\n" + f'timezone = "{zone}"' * bool(zone)
    return judge(folder, text, Submission("amy", time=time.timestamp()))["amy"].days


@pytest.mark.parametrize(
    "deadline, zone, when, days",
    [
        # clocks go back, in the night to Sunday: a day of 25 hours
        ("2026-10-24T20:00:00", "Europe/Berlin", "2026-10-25T19:30:00", 1),
        ("2026-10-24T20:00:00", "Europe/Berlin", "2026-10-25T20:00:59", 1),
        ("2026-10-24T20:00:00", "Europe/Berlin", "2026-10-25T20:01:00", 2),
        ("2026-10-23T20:00:00", "Europe/Berlin", "2026-10-25T20:00:00", 2),
        # forward: 23 hours
        ("2027-03-27T20:00:00", "Europe/Berlin", "2027-03-28T20:00:00", 1),
        ("2027-03-27T20:00:00", "Europe/Berlin", "2027-03-28T20:30:00", 2),
        # in the south, forward in October and back in April
        ("2026-10-03T20:00:00", "Australia/Sydney", "2026-10-04T20:30:00", 2),
        ("2027-04-03T20:00:00", "Australia/Sydney", "2027-04-04T19:30:00", 1),
        # by half an hour
        ("2027-04-03T20:00:00", "Australia/Lord_Howe", "2027-04-04T19:45:00", 1),
        ("2026-10-03T20:00:00", "Australia/Lord_Howe", "2026-10-04T20:15:00", 2),
        ("2026-10-24T20:00:00", "Asia/Kolkata", "2026-10-25T20:00:00", 1),
        ("2026-10-24T20:00:00", "America/New_York", "2026-11-01T20:00:00", 8),
        # without a zone, the days of the deadline's own difference to UTC
        ("2026-10-24T20:00:00+02:00", "", "2026-10-25T19:30:00+01:00", 2),
        ("2026-10-24T20:00:00+02:00", "Europe/Berlin", "2026-10-25T19:30:00+01:00", 1),
        # a day later the clocks skip this time, or show it twice: the later moment counts
        ("2027-03-27T02:30:00", "Europe/Berlin", "2027-03-28T03:30:00", 1),
        ("2026-10-24T02:30:00", "Europe/Berlin", "2026-10-25T02:30:00+01:00", 1),
        ("2026-10-24T23:59:59", "Europe/Berlin", "2026-10-24T23:59:59", 0),
        ("2026-10-24T23:59:30", "Europe/Berlin", "2026-10-24T23:59:50", 0),
        ("2026-10-24T23:59:30", "Europe/Berlin", "2026-10-25T00:00:00", 1),
    ],
)
def test_a_day_is_the_same_time_on_the_next_date(
    tmp_path: Path, deadline: str, zone: str, when: str, days: int
) -> None:
    assert days_late(tmp_path, deadline, zone, when) == days


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
    st.timedeltas(timedelta(0), timedelta(days=20)),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"]),
)  # fmt: skip
def test_days_late_are_days_on_the_wall(
    tmp_path: Path, deadline: datetime, after: timedelta, zone: str
) -> None:
    """As a person counts them, from what the clock on the wall shows."""
    deadline = deadline.replace(second=0, microsecond=0, hour=max(deadline.hour, 4))  # no change
    local = deadline + after
    for time in times.moments(local, ZoneInfo(zone)):
        wall = timedelta(seconds=int(after.total_seconds() // 60 * 60))
        expected = -(-wall // timedelta(days=1))
        assert days_late(tmp_path, deadline.isoformat(), zone, f"{time.isoformat()}") == expected


@pytest.mark.parametrize(
    "text, due",
    [
        ("deadline = 2026-10-25T02:30:00", "2026-10-25 02:30 +0100"),
        ("deadline = '25.10.2026 2:30'", "2026-10-25 02:30 +0100"),
        ("deadline = 2026-10-24T20:00:00\n[extensions]\namy = 2026-10-25T02:30:00", "2026-10-25 02:30 +0100"),
        ("deadline = 2026-10-24T02:30:00\n[extensions]\namy = 1", "2026-10-25 02:30 +0100"),
        ("deadline = 2026-10-24T20:00:00\n[extensions]\namy = 1", "2026-10-25 20:00 +0100"),
        ("deadline = 2026-10-25T02:30:00+02:00", "2026-10-25 02:30 +0200"),
    ],
)  # fmt: skip
def test_of_a_time_that_occurs_twice_the_later_counts_and_is_named(
    tmp_path: Path, text: str, due: str
) -> None:
    rules = policy.read(write(tmp_path, BERLIN + text))
    cases = policy.cases(rules, [Submission("amy")])
    assert cases["amy"].lateness_report(1)["due"] == due
    said = policy.remarks(rules, cases)
    assert len(said) == ("02:30 +0100" in due)
    assert all(re.search(r"policy.toml: .*02:30.* twice.*\+0100", sentence) for sentence in said)


def test_of_a_hand_in_time_that_occurs_twice_the_earlier_counts(tmp_path: Path) -> None:
    text = f"{BERLIN}deadline = 2026-10-24T20:00:00\n[times]\namy = 2026-10-25T02:30:00\n"
    rules = policy.read(write(tmp_path, text))
    assert rules.times == {"amy": datetime(2026, 10, 25, 0, 30, tzinfo=UTC)}
    assert "twice" in policy.remarks(rules, {})[0] and "+0200" in policy.remarks(rules, {})[0]


def test_names_are_compared_whatever_their_case_and_unicode_form(tmp_path: Path) -> None:
    typed, kept = "Zoë@x.edu", unicodedata.normalize("NFD", "zoë@X.edu")
    text = f"deadline = 2026-10-12T23:59:00Z\n[extensions]\n'{typed}' = 1\n[times]\n'{typed}' = '2026-10-13 12:00 UTC'\n"
    for submission in (Submission("s", submitters=[{"email": kept}]), Submission(kept.upper())):
        (case,) = judge(tmp_path, text, submission).values()
        assert (case.days, case.due.day) == (0, 13)


# --- times as people and systems write them -------------------------------------------

NINE = "2026-10-24T21:00:00"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2026-10-24 21:00", NINE),
        ("24.10.2026 21:00", NINE),
        ("24.10.2026, 21:00 Uhr", NINE),
        ("24. 10. 2026 21.00", NINE),
        ("10/24/2026 9:00 PM", NINE),
        ("24/10/2026 21:00:00", NINE),
        ("21:00 24-10-2026", NINE),
        ("46319.875", NINE),
        ("46319,875", NINE),
        ("24.10.2026 21:00 CEST", "2026-10-24T19:00:00+00:00"),
        ("25.10.2026 02:30 CEST", "2026-10-25T00:30:00+00:00"),
        ("25.10.2026 02:30 CET", "2026-10-25T01:30:00+00:00"),
        ("2026-10-24T21:00Z", f"{NINE}+00:00"),
        ("2026-10-24 21:00:00.123 UTC", f"{NINE}+00:00"),
        ("2026-10-24 21:00:00 -0700", f"{NINE}-07:00"),
        ("2026-10-24T21:00:00+05:30", f"{NINE}+05:30"),
        ("2026-10-24 21:00 (GMT+02:00)", f"{NINE}+02:00"),
        ("Saturday, 24 October 2026, 9:00 PM", NINE),
        ("Saturday, October 24, 2026, 9:00\N{NARROW NO-BREAK SPACE}PM", NINE),
        ("Oct 24 at 9pm", NINE),
        ("Oct 24, 2026 at 9:00 p.m.", NINE),
        ("Sat Oct 24 21:00:00 2026", NINE),
        ("Jan 3 at 12:05am", "2027-01-03T00:05:00"),  # the year nearest to the deadline
        ("Samstag, 24. Oktober 2026, 21:00", NINE),
        ("samedi 24 octobre 2026, 21:00", NINE),
        ("sábado, 24 de octubre de 2026, 21:00", NINE),
        ("sábado, 24 de outubro de 2026, 21:00", NINE),
        ("суббота, 24 октября 2026, 21:00", NINE),
        ("2026年 10月 24日(土曜日) 21:00", NINE),
        ("2026년 10월 24일 토요일, 오후 9:00", NINE),
        ("subota, 24. listopada 2026, 21:00", NINE),  # November in Polish, but no Saturday
    ],
)
def test_times_as_people_and_systems_write_them(text: str, expected: str) -> None:
    found = times.read(text, ZoneInfo("Europe/Berlin"), near=datetime(2026, 10, 24, tzinfo=UTC))
    assert found.isoformat() == expected


@pytest.mark.parametrize(
    "text",
    [
        "soon", "21:00", "2026-10-24", "46319", "24.10.26 21:00", "24.10.2026 25:00", "2026-10-24 21:00 PM",
        "2026-02-30 21:00", "2026-10-24 21:00 22:00", "Friday, 24 October 2026, 21:00", "24 Oct 26 21:00",
        "2026-10-24 21:00?", "Oct 2026 21:00", "13/13/2026 21:00", "late 2026-10-24 21:00", "24.10.1026 21:00",
    ],
)  # fmt: skip
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(times.Unreadable, match="write it as 2026-10-24 21:00"):
        times.read(text, UTC, near=datetime(2026, 10, 24, tzinfo=UTC))


@pytest.mark.parametrize(
    "text, said",
    [
        ("03/04/2026 10:00", "2026-03-04 10:00 or 2026-04-03 10:00"),
        ("24 listopada 2026 21:00", "2026-10-24 21:00 or 2026-11-24 21:00"),  # Croatian or Polish
        ("24.10.2026 21:00 CET", "CET is not the zone"),  # it is summer time
        ("24.10.2026 21:00 EST", "EST is not the zone"),
        ("24.10.2026 21:00 +2300", r"\+2300 is not the zone"),
    ],
)
def test_what_can_mean_several_times_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        times.read(text, ZoneInfo("Europe/Berlin"))
    assert not isinstance(caught.value, times.Unreadable)


def listed(folder: Path, *cells: str) -> tuple[dict[str, policy.Case], list[str]]:
    """The cases of students a, b, … whose times a roster has, and the remarks."""
    rules = policy.read(
        write(folder, 'deadline = 2026-04-02T20:00:00\ntimezone = "Europe/Berlin"\n')
    )
    lines = [
        f'{id},{id}@x.edu,"{cell}"' for id, cell in zip("abcdefghijklmnop", cells, strict=False)
    ]
    path = folder / "roster.csv"
    path.write_text("\n".join(["submission,email,handed in", *lines]), encoding="utf-8")
    people = rosters.read(path).people
    found = policy.cases(rules, [Submission(id) for id in "abcdefghijklmnop"[: len(cells)]], people)
    return found, policy.remarks(rules, found, people)


@pytest.mark.parametrize("other, days", [("13/03/2026 10:00", 1), ("03/13/2026 10:00", 0)])
def test_the_other_rows_settle_which_is_the_day(tmp_path: Path, other: str, days: int) -> None:
    found, said = listed(tmp_path, "03/04/2026 10:00", other)
    assert (found["a"].days, found["b"].days) == (days, 0)
    assert len(said) == 1 and ("day first" if days else "month first") in said[0]


def test_a_day_that_may_be_the_month_is_refused_by_line(tmp_path: Path) -> None:
    for cells in (
        ["-", "03/04/2026 10:00", "2026-03-13 10:00"],
        ["13/03/2026 10:00", "03/04/2026 10:00", "03/13/2026 10:00"],  # no order fits all
    ):
        with pytest.raises(ValueError, match="line 3 of the roster.*'03/04/2026 10:00' can mean"):
            listed(tmp_path, *cells)
    assert listed(tmp_path, "03/03/2026 10:00")[0]["a"].days == 0


def test_a_zone_of_the_roster_that_is_not_the_policys_is_refused(tmp_path: Path) -> None:
    assert listed(tmp_path, "03.04.2026 10:00 CEST")[0]["a"].days == 1
    with pytest.raises(ValueError, match="line 2 of the roster.*EST is not the zone"):
        listed(tmp_path, "03.04.2026 10:00 EST", "2026-03-13 10:00")


def test_moodles_worksheet_of_any_language_says_when(tmp_path: Path) -> None:
    rules = policy.read(
        write(tmp_path, 'deadline = 2026-10-24T20:00:00\ntimezone = "Europe/Berlin"\n')
    )
    path = tmp_path / "Noten.csv"
    header = "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Änderbar"
    row = "Teilnehmer/in{0},N{0},n{0}@x.edu,Zur Bewertung abgegeben,,5,Ja"
    nine, later = '"Samstag, 24. Oktober 2026, 21:00"', '"Montag, 26. Oktober 2026, 9:00"'
    handed = [Submission(id, submitters=[{"moodle id": n}]) for id, n in (("a", "1"), ("b", "2"))]

    def days(columns: str, *cells: str) -> tuple[list[int | None], list[str]]:
        lines = [f"{row.format(i)},{cell}" for i, cell in enumerate(cells, 1)]
        path.write_text("\n".join([f"{header},{columns}", *lines]), encoding="utf-8-sig")
        people = rosters.read(path).people
        found = policy.cases(rules, handed, people)
        return [case.days for case in found.values()], policy.remarks(rules, found, people)

    assert days("Zuletzt geändert (Abgabe),Zuletzt geändert (Bewertung)", f"{nine},-", "-,-") == (
        [1, None],
        [],
    )
    assert days("Abgabe,Bewertung,Feedback", f"{nine},{later},gut", "-,-,") == ([1, None], [])
    assert days("Bewertet,Feedback", f"{nine},gut", "-,") == ([None, None], [])  # says no hand-in
    english = "Due date,Last modified (submission),Last modified (grade)"
    assert days(english, f"-,{nine},-", "-,-,-") == ([1, None], [])
    found, said = days("Abgabe,Bewertung", '"Caturday, 24 Smarch 2026, 21:00",-', "-,-")
    assert found == [None, None] and "line 2 of the roster" in said[0] and "Smarch" in said[0]


def test_what_is_not_understood_is_named_and_not_counted_as_missing(tmp_path: Path) -> None:
    found, said = listed(
        tmp_path, "gestern", "-", "2026-03-13 10:00", "3.4.26 10:00", "2026-03-29 02:30", ""
    )
    assert {id for id, case in found.items() if case.days is None} == set("abdef")
    assert {id for id, case in found.items() if case.unread} == set("ade")
    assert (
        "not understood" in found["a"].lateness_report(1)["said"]
        and found["a"].lateness_report(1)["days"] is None
    )
    (sentence,) = said
    for named in (
        "of 3 ",
        "line 2 ",
        "'gestern'",
        "line 5 ",
        "'3.4.26 10:00'",
        "line 6 ",
        "2026-10-24 21:00",
    ):
        assert named in sentence
    # it does not matter where the policy's own table has the time
    text = "deadline = 2026-04-02T20:00:00Z\n[times]\namy = '2026-04-02 10:00 Z'\n"
    rules = policy.read(write(tmp_path, text))
    person = rosters.Person({"submission": "amy", "email": "a@x.edu", "handed in": "x"}, 2)
    cases = policy.cases(rules, [Submission("amy")], [person])
    assert (cases["amy"].days, policy.remarks(rules, cases, [person])) == (0, [])


# --- in a report ----------------------------------------------------------------------

BASIC = GOOD.partition("[ext")[0]


@pytest.fixture
def handed_in(course: Course) -> Course:
    """Three students with times, and two of Canvas's, one of whom it calls late."""
    for name, when in (
        ("amy", "2026-10-12T20-00-00"),
        ("bob", "2026-10-14T08-00-00"),
        ("cy", "2026-10-20T08-00-00"),
    ):
        course.hand_in(f"{name}/{when}/lab01", RIGHT)
    course.hand_in("doejane_LATE_12_99_lab01", RIGHT)
    course.hand_in("roejohn_13_98_lab01", RIGHT)
    return course


@pytest.mark.usefixtures("warm")
def test_a_policy_stands_beside_the_points(handed_in: Course) -> None:
    course = handed_in
    course.grade(seed=1)
    before = contents(course.report)
    assert "days late" not in course.table()["amy"]
    rules = write(course.root, f"{BASIC}[extensions]\n13 = 3\n")  # by Canvas's number
    done = course.grade(policy=rules)
    assert done.graded == []  # nothing had to be marked
    assert done.remarks[0].startswith("2 came late") and done.remarks[1].startswith("of 1 nothing")
    table = course.table()
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
    page = course.page("bob")
    assert "2 days late (due 2026-10-12 23:59 +0200); 1 late day used; after a penalty" in page
    assert "<b>3</b> of 3 points" in page
    text = summary.write(course.report).read_text(encoding="utf-8")
    late = text[text.index("<h3>Late</h3>") :].split("</table>")[0]
    assert [id for id in table if id in late] == ["bob", "cy", "doejane_12"]
    roster = course.root / "roster.csv"
    roster.write_text("name,email,submission\nBob,b@x.edu,bob\nCy,c@x.edu,cy\n")
    lms.write(course.report, ["gradescope"], roster)
    (bob,) = (r for r in course.rows("grades-gradescope.csv") if r["Email"] == "b@x.edu")
    assert (bob["Total Score"], bob["Lateness (H:M:S)"]) == ("3", "34:01:00")
    assert bob["Submission Time"].startswith("2026-10-14")
    # again without naming it; and when marks change, what is after the penalty does
    (course.report / "marks.csv").write_text("id,question,points\nbob,1.1,1\n")
    assert course.grade().graded == []
    assert (course.column("total")["bob"], course.column("after penalty")["bob"]) == ("2", "1.8")
    (course.report / "marks.csv").write_text("id,question,points\n")
    about = json.loads((course.report / "batch.json").read_text())
    assert about.pop("policy") == os.path.join("..", "policy.toml")
    (course.report / "batch.json").write_text(json.dumps(about))
    course.grade()
    after = contents(course.report)
    assert all(after[name] == before[name] for name in before if name != "batch.json")


@pytest.mark.usefixtures("warm")
def test_late_days_are_those_of_a_term(handed_in: Course) -> None:
    text = BASIC.replace("late_days = 1", "late_days = 3")
    handed_in.grade(policy=write(handed_in.root, text))
    used = handed_in.column("late days")
    assert [used[id] for id in ("amy", "bob", "cy")] == ["0", "2", "3"]
    handed_in.report.rename(handed_in.root / "report01")
    handed_in.grade(policy=write(handed_in.root, f'{text}earlier = ["report01"]\n'))
    used, penalty = handed_in.column("late days"), handed_in.column("penalty")
    assert [used[id] for id in ("amy", "bob", "cy")] == ["0", "1", "0"]
    assert [penalty[id] for id in ("amy", "bob", "cy")] == ["0 %", "10 %", "80 %"]


@pytest.mark.usefixtures("warm")
def test_times_and_students_of_a_roster(handed_in: Course) -> None:
    course = handed_in
    rules = write(course.root, f"{DUE_TOML}[extensions]\n'nobody@x.edu' = 3\n'JJ@x.edu' = 1\n")
    with pytest.raises(ValueError, match="there is nobody 'nobody@x.edu'"):
        course.grade(policy=rules)
    assert not list((course.report / "results").iterdir())  # before anything is graded
    roster = course.root / "moodle.csv"
    roster.write_text(
        "name,email,canvas id,Last modified (submission)\n"
        'Jane Doe,jd@x.edu,12,"Thursday, 15 October 2026, 10:00 AM"\n'
        'John Roe,jj@x.edu,13,"Tuesday, 13 October 2026, 10:00 AM"\n'
        "Nobody Yet,nobody@x.edu,14,-\n"
    )
    course.grade(policy=rules, roster=roster)
    days = {"amy": "0", "bob": "2", "cy": "8", "doejane_12": "3", "roejohn_13": "0"}
    assert course.column("days late") == days
    course.grade()  # the roster is remembered, too
    assert course.column("days late") == days
    roster.write_text(roster.read_text().replace("Thursday, 15 October 2026, 10:00 AM", "Thursday"))
    said: list[str] = []
    course.grade(say=said.append)
    assert any("line 2 of the roster" in sentence and "'Thursday'" in sentence for sentence in said)
    assert course.column("days late")["doejane_12"] == "?"
