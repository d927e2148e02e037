"""Times as people, spreadsheets and learning platforms write them, and the clocks of a
time zone.

A text is read only if it can mean one time. It has a date, a time of day and perhaps a
zone, in any order: ``2026-10-24 21:00``, ``24.10.2026 21:00``, ``10/24/2026 9:00 PM``,
``Oct 24 at 9pm``, ``Samstag, 24. Oktober 2026, 21:00``, ``2026-10-24T21:00Z``,
``46319.875`` (a spreadsheet's number). Babel knows the names of months and weekdays in
all languages. Anything else is refused: there is no search for something like a date.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from itertools import count, product

from course_lib.grading.batch.names import printable

FORM = "2026-10-24 21:00"  # the form to write
ORDERS = ("day first", "month first")
YEARS = range(2000, 2100)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)

_DATES = (  # a date in digits, and its parts in both orders
    (r"(?P<a>\d{4})(?P<by>[-/.])(?P<b>\d\d?)(?P=by)(?P<c>\d\d?)", ("ymd", "ymd")),
    (r"(?P<a>\d{4}) ?[年년] ?(?P<b>\d\d?) ?[月월] ?(?P<c>\d\d?) ?[日일]", ("ymd", "ymd")),
    (r"(?P<a>\d\d?)\. ?(?P<b>\d\d?)\. ?(?P<c>\d{4})", ("dmy", "dmy")),
    (r"(?P<a>\d\d?)(?P<by>[-/])(?P<b>\d\d?)(?P=by)(?P<c>\d{4})", ("dmy", "mdy")),
)
_CLOCK = re.compile(
    r"""(?<![\d.:])(?P<hour>\d\d?)
        (?:[:.h](?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?(?![\d:]) | (?=[ ]?(?i:[ap]m)\b))
        (?:[ ]?(?P<half>(?i:[ap]m))\b)?
        (?:[ ]?(?P<zone>(?:UTC|GMT)?[+-]\d\d?(?::?\d\d)?(?!\d) | Z\b | [A-Z]{2,5}\b))?""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+")
_FILLERS = frozenset(  # words that systems and people write between the parts
    ["t", "at", "on", "the", "st", "nd", "rd", "th", "um", "uhr", "den", "der", "kl", "klo"]
    + ["de", "del", "a", "las", "as", "alle", "ore", "le", "er", "om", "о", "в", "г", "года"]
)
_EPOCH = datetime(1899, 12, 30)  # day 0 of spreadsheets


class Unreadable(ValueError):
    """A text that is not understood as a time."""


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no time: it is empty or a dash."""
    return not any(c.isalnum() for c in text)


def read(
    text: str,
    zone: tzinfo | None,
    orders: Iterable[str] = ORDERS,
    near: datetime | None = None,
) -> datetime:
    """The time that a text means; without a zone if the text names none.

    Args:
        zone: the zone whose abbreviations (CEST, EDT) may stand in the text.
        orders: of :data:`ORDERS`, those in which dates like 03/04/2026 may be written.
        near: a date without a year is in the year that brings it nearest to this time.

    Raises:
        Unreadable: if the text is not understood. ValueError: if it can mean several
            times, or names a zone that is neither an offset nor ``zone`` at that time.
    """
    found, named = _readings(text, near)
    times = sorted(set().union(*(found[order] for order in orders)))
    if not times:
        raise Unreadable(f"{printable(text)!r} is not understood as a time: write it as {FORM}")
    if len(times) > 1:
        said = " or ".join(f"{time:%Y-%m-%d %H:%M}" for time in times)
        raise ValueError(
            f"{printable(text)!r} can mean {said}: write the intended time in this form"
        )
    if not named:
        return times[0]
    if named in ("Z", "UTC", "GMT"):
        return times[0].replace(tzinfo=UTC)
    if offset := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d?):?(\d\d)?", named):
        minutes = int(f"{offset[1]}1") * (int(offset[2]) * 60 + int(offset[3] or 0))
        if -12 * 60 <= minutes <= 14 * 60:
            return times[0].replace(tzinfo=timezone(timedelta(minutes=minutes)))
    elif zone is not None:
        for moment in moments(times[0], zone):
            if moment.astimezone(zone).tzname() == named:
                return moment
    own = f"zone of the policy ({zone}) at that time" if zone else "difference to UTC"
    raise ValueError(
        f"{printable(text)!r}: {named} is not the {own}: write the difference to UTC, such as"
        f" {FORM} +0200"
    )


def find_orders(texts: Iterable[str]) -> tuple[str, ...]:
    """The orders of day and month in which all readable times of a column can be read;
    both if there is none.
    """
    found = [readings for text in texts if any((readings := _readings(text)[0]).values())]
    return tuple(o for o in ORDERS if all(readings[o] for readings in found)) or ORDERS


def _readings(text: str, near: datetime | None = None) -> tuple[dict[str, set[datetime]], str]:
    """The times that a text can mean in each order, and the zone that it names."""
    found: dict[str, set[datetime]] = {order: set() for order in ORDERS}
    if re.fullmatch(r"\d{5}[.,]\d+", text.strip()):
        days = timedelta(days=float(text.strip().replace(",", ".")))
        time = _EPOCH + timedelta(seconds=round(days.total_seconds()))
        return dict.fromkeys(ORDERS, {time} if time.year in YEARS else set()), ""
    text = _without_accents(re.sub(r"[(),|،、]", " ", text))
    text = " ".join(re.sub(r"\b([ap])\. ?m\b\.?", r"\1m", text, flags=re.IGNORECASE).split())
    written = [(m, o) for form, o in _DATES if (m := re.search(rf"(?<!\d){form}(?!\d)", text))]
    digits, layouts = written[0] if written else (None, ("", ""))
    if digits:
        text = f"{text[: digits.start()]} {text[digits.end() :]}"
    clocks = list(_CLOCK.finditer(text))
    if len(clocks) != 1:
        return found, ""
    clock, named = clocks[0], clocks[0]["zone"] or ""
    end = clock.end()
    if named.isalpha() and named.casefold() in _vocabulary("en").keys() | _FILLERS:
        end, named = clock.start("zone"), ""  # "21:00 OCT 24 2026"
    rest = f"{text[: clock.start()]} {text[end:]}".casefold()
    numbers = re.findall(r"\d+", rest)
    if re.search(r"[^\w\s.·–-]|_", rest) or (digits and numbers):
        return found, ""
    words = _WORD.findall(rest)
    for languages in (("en",), _languages()):
        meanings = {m for language in languages for m in _meanings(words, _vocabulary(language))}
        for months, weekdays, half in meanings:
            for order, layout in zip(ORDERS, layouts, strict=True):
                if digits:
                    parts = dict(zip(layout, digits.group("a", "b", "c"), strict=True))
                    dates = [(int(parts["y"]), int(parts["m"]), int(parts["d"]))]
                else:
                    dates = list(_dates(numbers, months, near))
                times = [_time(*date, clock, half) for date in dates]
                good = {t for t in times if t and t.month in months and t.weekday() in weekdays}
                if near and not digits and len(numbers) == 1 and good:
                    good = {min(good, key=lambda t: abs(t - near.replace(tzinfo=None)))}
                found[order] |= good
        if any(found.values()):
            break
    return found, named


def _dates(
    numbers: list[str], months: frozenset[int], near: datetime | None
) -> Iterator[tuple[int, int, int]]:
    """Year, month and day by the numbers beside the name of a month."""
    years = [int(n) for n in numbers if len(n) == 4]
    days = [int(n) for n in numbers if len(n) <= 2]
    if len(numbers) == 1 and near:
        years = [near.year - 1, near.year, near.year + 1]
    elif len(numbers) != 2:
        return
    if len(days) == 1 and len(months) < 12:
        yield from ((year, month, days[0]) for year in years for month in months)


def _time(year: int, month: int, day: int, clock: re.Match[str], half: str) -> datetime | None:
    half = (clock["half"] or half).lower()
    hour = int(clock["hour"])
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half == "pm")
    try:
        time = datetime(
            year, month, day, hour, int(clock["minute"] or 0), int(clock["second"] or 0)
        )
    except ValueError:
        return None
    return time if year in YEARS else None


# --- words ----------------------------------------------------------------------------

Meaning = tuple[frozenset[int], frozenset[int], str]  # months, weekdays, am or pm


def _without_accents(text: str) -> str:
    kept = (c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c)[0] != "M")
    return unicodedata.normalize("NFKC", "".join(kept))


@cache
def _languages() -> tuple[str, ...]:
    from babel.localedata import locale_identifiers

    # without territories, which share their language's names; with scripts
    return tuple(
        sorted(id for id in locale_identifiers() if all(len(p) == 4 for p in id.split("_")[1:]))
    )


@cache
def _vocabulary(language: str) -> dict[str, dict[str, set[int]]]:
    """What each word of a language's dates can mean: ``{"oct": {"month": {10}}}``."""
    from babel import Locale

    locale = Locale.parse(language)
    found: dict[str, dict[str, set[int]]] = {}
    named = [
        (kind, number, name)
        for kind, table in (("month", locale.months), ("weekday", locale.days))
        for widths in table.values()
        for width in ("wide", "abbreviated")
        for number, name in widths.get(width, {}).items()
    ]
    named += [
        ("half", half == "pm", name)
        for widths in locale.day_periods.values()
        for names in widths.values()
        for half, name in names.items()
        if half in ("am", "pm")
    ]
    for kind, number, name in named:
        for word in _WORD.findall(_without_accents(name).casefold()):
            found.setdefault(word, {}).setdefault(kind, set()).add(int(number))
    return found


def _meanings(words: list[str], vocabulary: dict[str, dict[str, set[int]]]) -> set[Meaning]:
    """What words mean together; nothing if one of them is unknown."""
    options = [
        [*vocabulary.get(word, {}).items(), *([("", set[int]())] if word in _FILLERS else [])]
        for word in words
    ]
    found = set()
    for choice in product(*options):
        may = {"month": set(range(1, 13)), "weekday": set(range(7)), "half": {0, 1}, "": set[int]()}
        for kind, values in choice:
            may[kind] &= values
        halves = ("am", "pm") if any(kind == "half" for kind, _ in choice) else ("",)
        if len(halves) == 1 or len(may["half"]) == 1:
            half = halves[may["half"].pop()] if len(halves) > 1 else ""
            found.add((frozenset(may["month"]), frozenset(may["weekday"]), half))
    return found


# --- clocks ---------------------------------------------------------------------------


def moments(local: datetime, zone: tzinfo) -> list[datetime]:
    """The moments, in UTC, at which the clocks of a zone show a time: one, two where
    they go back, none where they go forward.
    """
    both = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(m for m in both if m.astimezone(zone).replace(tzinfo=None) == local)


def nearest(local: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The last minute before and the first after a time that a zone's clocks skip."""
    before, after = (
        next(t for n in count(1) if moments(t := local + step * n, zone))
        for step in (-MINUTE, MINUTE)
    )
    return before, after


def add_days(time: datetime, days: int, zone: tzinfo) -> datetime:
    """The moment so many calendar days later at which a zone's clocks show the same;
    the later one where there are two, and where the clocks skip it, as much later as
    they skip.
    """
    if not days:
        return time
    local = time.astimezone(zone).replace(tzinfo=None, fold=0) + days * DAY
    return max(local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
