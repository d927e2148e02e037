"""``policy.toml``: deadline, grace, penalty, late days and extensions. What follows
from it stands next to the points and never replaces them.

.. code-block:: toml

    deadline = 2026-10-12T23:59:00
    timezone = "Europe/Berlin"     # of times that name none
    grace = 15                     # minutes after the deadline that do not count
    penalty = 10                   # per cent of the points, for each day begun after the deadline
    late_days = 3                  # days per student that cost nothing
    earlier = ["../report-lab00"]  # reports in which some of these days were used up

    [extensions]  # by id, email address or number: a new deadline, or a number of days
    doejane_12345 = 2026-10-16T23:59:00
    "al@example.edu" = 2

    [times]  # when a student handed in, if no system says so
    roejohn_12346 = 2026-10-13T08:00:00

A day is a calendar day in the policy's zone: n days after the deadline, the clocks there
show the deadline's time of day again, also if they were changed in between. A submission
is n days late for the smallest n that it meets. The deadline's whole minute counts: at
23:59:59, a deadline at 23:59 is met. ``grace`` follows that minute and is elapsed time.

The hand-in time comes from a system's names and lists, a folder named by its time,
Moodle's worksheet or a column ``handed in`` of the roster (:mod:`.times` reads these). A
file's own time is when it was packed or copied, and is not used. Canvas's names only say
whether a submission was late.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from course_lib.grading.batch import times
from course_lib.grading.batch.names import printable
from course_lib.grading.batch.result import read_all
from course_lib.grading.batch.roster import IDENTITIES, Index, Person, fold_case
from course_lib.grading.batch.submission import Submission
from course_lib.grading.batch.times import DAY, MINUTE

KEYS = ("deadline", "timezone", "grace", "penalty", "late_days", "earlier", "extensions", "times")
COLUMNS = ("handed in", "days late", "late days", "penalty", "after penalty")  # of grades.csv
_EXAMPLE = "2026-10-12T23:59:00"


@dataclass(frozen=True)
class Policy:
    """A policy as its file has it; times are in UTC.

    Attributes:
        zone: whose days and clocks count. extensions: new deadlines, and times: when
            students handed in, both by :func:`~.roster.fold_case` names of students.
            remarks: sentences on times that occur twice.
    """

    path: Path
    deadline: datetime
    zone: tzinfo
    grace: timedelta = timedelta(0)
    penalty: float = 0.0
    late_days: int = 0
    earlier: tuple[Path, ...] = ()
    extensions: Mapping[str, datetime] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One submission under a policy.

    Attributes:
        due: its deadline. time: when it was handed in, None where that is not known.
            days: how many it is late, None where that is not known. late: the system's
            word. late_days: how many of them cost nothing. penalty: per cent of the
            points for the others. unread: if the roster has a time that is not
            understood, a sentence that names it.
    """

    policy: Policy
    due: datetime
    time: datetime | None
    days: int | None
    late: bool | None = None
    late_days: int = 0
    penalty: float = 0.0
    unread: str = ""

    def lateness_report(self, points: float) -> dict[str, Any]:
        """What a result and its page say of it, for a submission with so many
        points.
        """
        after = points * (1 - self.penalty / 100)
        due = f"due {self._shown(self.due)}"
        when = (
            f"handed in {self._shown(self.time)}"
            if self.time
            else "handed in at a time that is not understood"
            if self.unread
            else "handed in at a time that is not known"
        )
        if self.days is None and self.late:
            said = f"{when}, late by the system's word, which does not say by how much ({due})"
        elif self.days is None:
            said = f"{when}: whether it is late is not known ({due})"
        elif not self.days:
            said = f"{when if self.time else 'handed in'} in time ({due})"
        else:
            said = f"{when}, {self.days} day{'s' * (self.days != 1)} late ({due})"
            if self.late_days:
                said += f"; {self.late_days} late day{'s' * (self.late_days != 1)} used"
            if self.penalty:
                said += f"; after a penalty of {self.penalty:g} % {after:g} points"
        late = None
        if self.time:
            in_time = self.time < _end(self.policy, self.due)
            late = timedelta(0) if in_time else self.time - self.due
        seconds = 0 if late is None else round(late.total_seconds())
        return {
            "due": self._shown(self.due),
            "handed in": self._shown(self.time) if self.time else "",
            "late": (
                ""
                if late is None
                else f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            ),
            "days": self.days,
            "late days": self.late_days,
            "penalty": self.penalty,
            "after": None if self.days is None else after,
            "said": said,
        }

    def _shown(self, time: datetime) -> str:
        return time.astimezone(self.policy.zone).strftime("%Y-%m-%d %H:%M %z")


def cells(lateness: Mapping[str, Any] | None, undecided: bool) -> list[str]:
    """A submission's cells under :data:`COLUMNS`; without points where it has no grade
    yet.
    """
    if not lateness:
        return [""] * len(COLUMNS)
    if lateness["days"] is None:
        return [lateness["handed in"], *["?"] * 4]
    about = (f"{lateness['days']}", f"{lateness['late days']}", f"{lateness['penalty']:g} %")
    return [lateness["handed in"], *about, "" if undecided else f"{lateness['after']:g}"]


def read(path: Path) -> Policy:
    """The policy of a file.

    Raises:
        FileNotFoundError: if it is not there. ValueError: if it is no TOML, has no
            deadline, or something in it cannot be.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no policy at {path}")
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no TOML: {error}") from None
    try:
        return _Reader(said).policy(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class _Reader:
    """Checks the values of a policy's file; messages do not name the file.

    Attributes:
        zone: that the file names, or None. remarks: sentences on times that occur twice.
    """

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        self.remarks: list[str] = []
        for key in said:
            if key not in KEYS:
                near = get_close_matches(key, KEYS, 1)
                remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
                raise ValueError(f"there is no key {key!r}: {remedy}")
        if "deadline" not in said:
            raise ValueError(f"there is no deadline: write one, such as deadline = {_EXAMPLE}")
        self.zone: tzinfo | None = None
        if "timezone" in said:
            try:
                self.zone = ZoneInfo(str(said["timezone"]))
            except (ZoneInfoNotFoundError, ValueError, OSError):
                raise ValueError(
                    f'there is no timezone {said["timezone"]!r}: write one as "Europe/Berlin" or'
                    ' "America/New_York"'
                ) from None

    def policy(self, path: Path) -> Policy:
        """The policy, read from ``path``."""
        deadline = self.time("deadline", self.said["deadline"])
        of_days = self.zone or deadline.tzinfo or UTC

        def extended(what: str, value: Any) -> datetime:
            if not isinstance(value, int | float):
                return self.time(what, value)
            days = int(self.number(what, value, "days", 366, whole=True))
            local = deadline.astimezone(of_days).replace(tzinfo=None, fold=0) + days * DAY
            return self.moment(what, local, of_days) if days else deadline

        def handed_in(what: str, value: Any) -> datetime:
            return self.time(what, value, earlier=True)

        grace, penalty, late_days = (self.said.get(k, 0) for k in ("grace", "penalty", "late_days"))
        return Policy(
            path,
            deadline.astimezone(UTC),
            of_days,
            self.number("grace", grace, "minutes", 7 * 24 * 60) * MINUTE,
            self.number("penalty", penalty, "per cent a day", 100),
            int(self.number("late_days", late_days, "days", 366, whole=True)),
            self.reports(path.parent),
            self.by_student("extensions", extended),
            self.by_student("times", handed_in),
            tuple(f"{path}: {remark}" for remark in self.remarks),
        )

    def time(self, what: str, value: Any, earlier: bool = False) -> datetime:
        """A time of the policy. Of two at which the clocks show it the later counts,
        or the earlier for hand-ins: the one that is better for the student.
        """
        if isinstance(value, str):
            try:
                value = times.read(value, self.zone)
            except ValueError as error:
                raise ValueError(f"{what}: {error}") from None
        if isinstance(value, date) and not isinstance(value, datetime):
            raise ValueError(f"{what} is a day without a time: write {value}T23:59:00")
        if not isinstance(value, datetime):
            raise ValueError(f"{what} is no time: write one as {_EXAMPLE}")
        if value.year not in times.YEARS:
            raise ValueError(f"{what} is {value}: a year from 2000 to 2099 is expected")
        if value.tzinfo is not None:
            return value
        if self.zone is None:
            raise ValueError(
                f'{what} has no time zone: write timezone = "Europe/Berlin", say, or'
                f" {value.isoformat()}+02:00"
            )
        return self.moment(what, value, self.zone, earlier)

    def moment(self, what: str, local: datetime, zone: tzinfo, earlier: bool = False) -> datetime:
        """When a zone's clocks show a time."""
        found = times.moments(local, zone)
        said = f"{what} is {local:%Y-%m-%d %H:%M}"
        if not found:
            before, after = (f"{t:%Y-%m-%d %H:%M}" for t in times.nearest(local, zone))
            raise ValueError(
                f"{said}, a time that the clocks of {zone} skip: write {before} or {after}"
            )
        moment = found[0 if earlier else -1].astimezone(zone)
        if len(found) > 1:
            self.remarks.append(
                f"{said}, which the clocks of {zone} show twice:"
                f" the {'earlier' if earlier else 'later'} one counts,"
                f" {moment:%H:%M %z}. Write {moment.isoformat()} to settle it"
            )
        return moment

    def number(self, what: str, value: Any, unit: str, most: int, whole: bool = False) -> float:
        """A number from 0 to ``most``."""
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
        if not good or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            raise ValueError(f"{what} is {value!r}: {kind} of {unit} is expected, from 0 to {most}")
        return float(value)

    def by_student(self, what: str, read: Callable[[str, Any], datetime]) -> dict[str, datetime]:
        """A table of times, by students' names as they are compared."""
        value = self.said.get(what, {})
        if not isinstance(value, dict):
            raise ValueError(
                f"{what} is {value!r}: a table is expected, [{what}] and a line for each student"
            )
        found: dict[str, datetime] = {}
        for who, each in value.items():
            if fold_case(who) in found:
                raise ValueError(f"{what} names {printable(who)!r} twice: keep one of the lines")
            found[fold_case(who)] = read(f"{what}, {printable(who)}", each).astimezone(UTC)
        return found

    def reports(self, folder: Path) -> tuple[Path, ...]:
        """The reports of earlier labs, as seen from the policy's folder."""
        value = self.said.get("earlier", [])
        if not (isinstance(value, list) and all(isinstance(place, str) for place in value)):
            raise ValueError(
                f'earlier is {value!r}: a list of reports is expected, such as ["../report-lab00"]'
            )
        for place in value:
            if not (folder / place / "batch.json").is_file():
                raise ValueError(
                    f"earlier names {place}, where no report is: write its folder as seen from the"
                    " policy's"
                )
        return tuple(folder / place for place in value)


# --- whose is what --------------------------------------------------------------------


def cases(
    policy: Policy, submissions: Iterable[Submission], people: Iterable[Person] = ()
) -> dict[str, Case]:
    """What the policy says of each submission, by id.

    Args:
        people: of a roster: it may say when they handed in, and by what else than their
            submission's name they are known.

    Raises:
        ValueError: if ``extensions`` or ``times`` name a student who is neither among
            the submissions nor in the roster, or a time in the roster can mean several;
            lines are named.
    """
    people = list(people)
    index = Index(people)
    submissions = list(submissions)
    of = {h.id: [person for person, _ in index.of(h)[0]] if people else [] for h in submissions}
    called = {
        h.id: _names(h.id, [*h.submitters, *(person.values for person in of[h.id])])
        for h in submissions
    }
    _refuse_unknown(policy, set().union(*called.values()), people)
    used = _used(policy)
    orders = times.find_orders(person["handed in"] for person in people)
    found, problems = {}, []
    for h in submissions:
        names = called[h.id]
        due = max([policy.deadline, *(policy.extensions[n] for n in names & {*policy.extensions})])
        time = max((policy.times[n] for n in names & {*policy.times}), default=None)
        unread = ""
        if time is None and h.time is not None:
            time = datetime.fromtimestamp(h.time, UTC)
        elif time is None:
            try:
                time = max(_listed(policy, of[h.id], orders), default=None)
            except times.Unreadable as error:
                unread = str(error)
            except ValueError as error:
                problems.append(str(error))
        days = _count_days_late(policy, due, time, h.late)
        left = policy.late_days - max((used.get(name, 0) for name in names), default=0)
        free = min(days or 0, max(left, 0))
        penalty = min(100.0, policy.penalty * ((days or 0) - free))
        found[h.id] = Case(policy, due, time, days, h.late, free, penalty, unread)
    if problems:
        raise ValueError("\n".join(problems))
    return found


def _listed(policy: Policy, people: Iterable[Person], orders: Iterable[str]) -> list[datetime]:
    """When the roster says that students handed in; of two moments at which the clocks
    show a time, the earlier.
    """
    found = []
    for person in people:
        if times.is_missing(text := person["handed in"]):
            continue
        where = f"line {person.line} of the roster, column handed in"
        try:
            time = times.read(text, policy.zone, orders, policy.deadline)
            both = [time.astimezone(UTC)] if time.tzinfo else times.moments(time, policy.zone)
            if not both:
                before, after = times.nearest(time, policy.zone)
                raise times.Unreadable(
                    f"{printable(text)!r} is a time that the clocks of {policy.zone} skip: write"
                    f" {before:%Y-%m-%d %H:%M} or {after:%Y-%m-%d %H:%M}"
                )
        except ValueError as error:
            raise type(error)(f"{where}: {error}") from None
        found.append(both[0])
    return found


def _end(policy: Policy, due: datetime, days: int = 0) -> datetime:
    """When the minute is over in which submissions are so many days late at most."""
    last = times.add_days(due, days, policy.zone)
    return last.replace(second=0, microsecond=0) + MINUTE


def _count_days_late(
    policy: Policy, due: datetime, time: datetime | None, late: bool | None
) -> int | None:
    """How many days late something is, None where that is not known; without a time the
    system's word counts.
    """
    if time is None:
        return 0 if late is False else None
    if time < _end(policy, due) + policy.grace:
        return 0
    # calendar days and days of 24 hours differ by less than two
    first = max(1, (time - due) // DAY - 1)
    return next(n for n in count(first) if time < _end(policy, due, n))


def remarks(policy: Policy, cases: Mapping[str, Case], people: Iterable[Person] = ()) -> list[str]:
    """Sentences on how times of the policy and of the roster were read."""
    said = list(policy.remarks)
    orders = times.find_orders(person["handed in"] for person in people)
    if len(orders) == 1:
        said.append(f"dates of the roster such as 03/04/2026 are read {orders[0]}, as others show")
    if unread := [c.unread for c in cases.values() if c.unread and c.days is None]:
        said.append(
            f"of {len(unread)} the roster has a time that is not understood, so nothing says"
            f" whether they are late: {'; '.join(unread)}"
        )
    return said


def _names(id: str, people: Iterable[Mapping[str, str]]) -> set[str]:
    """What a submission and its students are called, as it is compared."""
    known = [who[column] for who in people for column in IDENTITIES if who.get(column)]
    return {fold_case(name) for name in (id, *known)}


def _used(policy: Policy) -> dict[str, int]:
    """The late days that each student has used up before, by whatever names them."""
    used: dict[str, int] = {}
    for report in policy.earlier:
        for result in read_all(report):
            days = int((result.lateness or {}).get("late days") or 0)
            for name in _names(result.id, result.submitters):
                used[name] = used.get(name, 0) + days
    return used


def _refuse_unknown(policy: Policy, names: set[str], people: list[Person]) -> None:
    names = names | {fold_case(person[c]) for person in people for c in IDENTITIES if person[c]}
    for table, listed in (("extensions", policy.extensions), ("times", policy.times)):
        for who in listed:
            if who not in names:
                near = get_close_matches(who, names, 1)
                remedy = f"did you mean {printable(near[0])!r}? " if near else ""
                raise ValueError(
                    f"{policy.path}, {table}: there is nobody {printable(who)!r}: {remedy}Write the"
                    " id as grades.csv has it, an email address or a number; who has handed in"
                    " nothing yet must be in the roster (--roster)"
                )
