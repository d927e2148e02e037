"""``policy.toml``: deadline, grace, penalty, late days and extensions. What follows
from it stands beside the points, never in their place.

.. code-block:: toml

    deadline = 2026-10-12T23:59:00
    timezone = "Europe/Berlin"     # of times that name none
    grace = 15                     # minutes after the deadline that do not count
    penalty = 10                   # per cent of the points, for each day begun after the deadline
    late_days = 3                  # days, of each student, that cost nothing
    earlier = ["../report-lab00"]  # reports in which some of these days were used up

    [extensions]  # by id, email address or number: a new deadline, or a number of days
    doejane_12345 = 2026-10-16T23:59:00
    "al@example.edu" = 2

    [times]                             # when somebody handed in, where no system says so
    roejohn_12346 = 2026-10-13T08:00:00

When something was handed in is what a system's names and lists say, a folder named by
its time, Moodle's worksheet or a column ``handed in`` of the roster. A file's own time
says when it was packed or copied, and is not believed. Canvas's names only say whether
it was late.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from course_lib.grading.batch import report as reports
from course_lib.grading.batch.collect import Handed
from course_lib.grading.batch.names import shown
from course_lib.grading.batch.roster import IDENTITIES, Index, Person

KEYS = ("deadline", "timezone", "grace", "penalty", "late_days", "earlier", "extensions", "times")
COLUMNS = ("handed in", "days late", "late days", "penalty", "after penalty")  # of grades.csv
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Policy:
    """A policy as its file has it; times are aware of their zone.

    Attributes:
        extensions: by what names the student, the new deadline, or the days more.
            times: when they handed in.
    """

    path: Path
    deadline: datetime
    zone: tzinfo
    grace: timedelta = timedelta(0)
    penalty: float = 0.0
    late_days: int = 0
    earlier: tuple[Path, ...] = ()
    extensions: Mapping[str, datetime | int] = field(default_factory=dict)
    times: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One submission under a policy.

    Attributes:
        due: its deadline. time: when it was handed in, None where that is not known.
            days: how many it is late, None where that is not known. late: the system's
            word. late_days: how many of them cost nothing. penalty: per cent of the
            points for the others.
    """

    policy: Policy
    due: datetime
    time: datetime | None
    days: int | None
    late: bool | None = None
    late_days: int = 0
    penalty: float = 0.0

    def told(self, points: float) -> dict[str, Any]:
        """What a result and its page say of it, for a submission with so many
        points.
        """
        after = points * (1 - self.penalty / 100)
        due = f"due {self._shown(self.due)}"
        when = (
            f"handed in {self._shown(self.time)}"
            if self.time
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
        late = max(self.time - self.due, timedelta(0)) if self.time else None
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


def cells(told: Mapping[str, Any] | None) -> list[str]:
    """A submission's cells under :data:`COLUMNS`."""
    if not told:
        return [""] * len(COLUMNS)
    known = told["days"] is not None
    rest = (
        [f"{told['days']}", f"{told['late days']}", f"{told['penalty']:g} %", f"{told['after']:g}"]
        if known
        else ["?"] * 4
    )
    return [told["handed in"], *rest]


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
    for key in said:
        if key not in KEYS:
            near = get_close_matches(key, KEYS, 1)
            remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
            raise ValueError(f"{path}: there is no key {key!r}: {remedy}")
    if "deadline" not in said:
        raise ValueError(
            f"{path}: there is no deadline: write one, such as deadline = 2026-10-12T23:59:00"
        )
    zone: tzinfo | None = None
    if "timezone" in said:
        try:
            zone = ZoneInfo(str(said["timezone"]))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f'{path}: there is no timezone {said["timezone"]!r}: write one as "Europe/Berlin"'
                ' or "America/New_York"'
            ) from None
    deadline = _time(path, "deadline", said["deadline"], zone)
    return Policy(
        path,
        deadline,
        zone or deadline.tzinfo or UTC,
        timedelta(minutes=_number(path, "grace", said.get("grace", 0), "minutes", 7 * 24 * 60)),
        _number(path, "penalty", said.get("penalty", 0), "per cent a day", 100),
        int(_number(path, "late_days", said.get("late_days", 0), "days", 366, whole=True)),
        _reports(path, said.get("earlier", [])),
        {
            who: (
                int(_number(path, f"extensions, {who}", value, "days", 366, whole=True))
                if isinstance(value, int | float)
                else _time(path, f"extensions, {who}", value, zone)
            )
            for who, value in _table(path, "extensions", said.get("extensions", {})).items()
        },
        {
            who: _time(path, f"times, {who}", value, zone)
            for who, value in _table(path, "times", said.get("times", {})).items()
        },
    )


def _time(path: Path, what: str, value: Any, zone: tzinfo | None) -> datetime:
    if isinstance(value, str):
        value = moment(value, zone)
    if isinstance(value, date) and not isinstance(value, datetime):
        raise ValueError(f"{path}: {what} is a day without a time: write {value}T23:59:00")
    if not isinstance(value, datetime):
        raise ValueError(f"{path}: {what} is no time: write one as 2026-10-12T23:59:00")
    if value.tzinfo is None and zone is None:
        raise ValueError(
            f'{path}: {what} has no time zone: write timezone = "Europe/Berlin", say, or'
            f" {value.isoformat()}+02:00"
        )
    return value if value.tzinfo else value.replace(tzinfo=zone)


def moment(text: str, zone: tzinfo | None) -> datetime | None:
    """A time as people, Gradescope or Moodle (in English) write it; None where it is
    none.
    """
    text = " ".join(text.split())
    for form in (
        "%A, %d %B %Y, %I:%M %p",
        "%d %B %Y, %I:%M %p",
        "%Y-%m-%d %H:%M:%S %z",
        "%Y-%m-%d %H:%M %z",
    ):
        try:
            found = datetime.strptime(text, form)
            break
        except ValueError:
            continue
    else:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            return None
    return found if found.tzinfo or zone is None else found.replace(tzinfo=zone)


def _number(path: Path, what: str, value: Any, unit: str, most: int, whole: bool = False) -> float:
    good = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value <= most
    )
    if not good or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise ValueError(
            f"{path}: {what} is {value!r}: {kind} of {unit} is expected, from 0 to {most}"
        )
    return float(value)


def _table(path: Path, what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}: {what} is {value!r}: a table is expected, [{what}] and a line for each"
            " student"
        )
    return value


def _reports(path: Path, value: Any) -> tuple[Path, ...]:
    if not (isinstance(value, list) and all(isinstance(place, str) for place in value)):
        raise ValueError(
            f"{path}: earlier is {value!r}: a list of reports is expected, such as"
            ' ["../report-lab00"]'
        )
    for place in value:
        if not (path.parent / place / "batch.json").is_file():
            raise ValueError(
                f"{path}: earlier names {place}, where no report is: write its folder as seen from"
                " the policy's"
            )
    return tuple(path.parent / place for place in value)


# --- whose is what --------------------------------------------------------------------


def cases(
    policy: Policy, handed: Iterable[Handed], people: Iterable[Person] = ()
) -> dict[str, Case]:
    """What the policy says of each submission, by id.

    Args:
        people: of a roster: it may say when they handed in, and by what else than their
            submission's name they are known.

    Raises:
        ValueError: if ``extensions`` or ``times`` name somebody who is neither among
            the submissions nor in the roster.
    """
    people = list(people)
    index = Index(people)
    known: dict[str, tuple[set[str], Handed]] = {}
    of: dict[str, list[Person]] = {}
    for h in handed:
        of[h.id] = [person for person, _ in index.of(h)[0]] if people else []
        theirs = {
            h.id,
            *(
                w[c]
                for w in [*h.submitters, *(p.values for p in of[h.id])]
                for c in IDENTITIES
                if w.get(c)
            ),
        }
        known[h.id] = ({name.casefold() for name in theirs}, h)
    _refuse_unknown(policy, {name for names, _ in known.values() for name in names}, people)
    used = _used(policy)
    extensions = {who.casefold(): value for who, value in policy.extensions.items()}
    times = {who.casefold(): value for who, value in policy.times.items()}
    found = {}
    for id, (names, h) in known.items():
        given = [extensions[name] for name in names if name in extensions]
        due = max(
            [
                policy.deadline,
                *(policy.deadline + g * DAY if isinstance(g, int) else g for g in given),
            ]
        )
        typed = [times[name] for name in names if name in times]
        said = [m for p in of[id] if (m := moment(p["handed in"], policy.zone)) is not None]
        recorded = [datetime.fromtimestamp(h.time, UTC)] if h.time is not None else []
        time = next((max(some) for some in (typed, recorded, said) if some), None)
        left = policy.late_days - max((used.get(name, 0) for name in names), default=0)
        found[id] = _case(policy, due, time, h.late, max(left, 0))
    return found


def _case(
    policy: Policy, due: datetime, time: datetime | None, late: bool | None, left: int
) -> Case:
    if time is None:
        return Case(policy, due, None, 0 if late is False else None, late)
    over = time - due
    days = math.ceil(over / DAY) if over > policy.grace else 0
    free = min(days, left)
    return Case(policy, due, time, days, late, free, min(100.0, policy.penalty * (days - free)))


def _used(policy: Policy) -> dict[str, int]:
    """The late days that each student has used up before, by whatever names them."""
    used: dict[str, int] = {}
    for report in policy.earlier:
        for result in reports.results(report):
            extra = result["extra_data"]
            days = (extra.get("lateness") or {}).get("late days") or 0
            names = {
                extra["id"],
                *(
                    who[c]
                    for who in extra.get("submitters") or []
                    for c in IDENTITIES
                    if who.get(c)
                ),
            }
            for name in {name.casefold() for name in names}:
                used[name] = used.get(name, 0) + int(days)
    return used


def _refuse_unknown(policy: Policy, names: set[str], people: list[Person]) -> None:
    names = names | {person[c].casefold() for person in people for c in IDENTITIES if person[c]}
    for table, listed in (("extensions", policy.extensions), ("times", policy.times)):
        for who in listed:
            if who.casefold() not in names:
                near = get_close_matches(who.casefold(), names, 1)
                remedy = f"did you mean {shown(near[0])!r}? " if near else ""
                raise ValueError(
                    f"{policy.path}, {table}: there is nobody {shown(who)!r}: {remedy}Write the id"
                    " as grades.csv has it, an email address or a number; who has handed in"
                    " nothing yet must be in the roster (--roster)"
                )
