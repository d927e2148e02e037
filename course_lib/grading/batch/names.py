"""What names of files and folders tell: times, labs, the number of an upload; and how
names are compared and shown.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta, timezone

import regex as re  # knows letters' marks, which the standard library does not

_STAMP = re.compile(
    r"(20\d\d)[-_.]?(\d\d)[-_.]?(\d\d)(?:[-_"
    r" T]+(\d\d)[-_.:h]?(\d\d)(?:[-_.:m]?(\d\d)(?:[.,]\d+)?)?)?"
    r"(?:\s*(?:Z|UTC|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)))?s?"
)
_ATTEMPT = re.compile(r"(?:attempt|try|version|v)[-_ ]*(\d{1,6})", re.IGNORECASE)
_ACCENT = 200  # combining classes of accents begin here (Unicode, section 4.3)
_JOINERS = "\u200c\u200d"  # between letters of Persian or Hindi
_LAB = re.compile(r"(?<![^\W\d_])lab[-_ ]*0*(\d+)(?!\d)", re.IGNORECASE)
_AGAIN = re.compile(
    r"(?P<stem>.+?)(?:-(?P<n>\d{1,4})| ?\((?P<m>\d{1,4})\))?\.(?:ipynb|zip|safetensors)",
    re.IGNORECASE | re.DOTALL,
)


def parse_timestamp(text: str) -> float | None:
    """Seconds since 1970 of "2024-05-01T10-11-12", "20240501_1011", "attempt 2" (its
    number) or a Unix time; else None.
    """
    text = text.strip()
    if match := _STAMP.fullmatch(text):
        parts = [int(part or 0) for part in match.groups()[:6]]
        sign, hours, minutes = match.groups()[6:]
        east = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        try:
            zone = timezone(-east if sign == "-" else east)
            return datetime(*parts, tzinfo=zone).timestamp()  # type: ignore[misc, arg-type]
        except ValueError:  # the 31st of February
            return None
    if match := _ATTEMPT.fullmatch(text):
        return float(match[1])
    if re.fullmatch(r"1\d{9}", text):
        return float(text)
    if re.fullmatch(r"1\d{12}", text):
        return float(text) / 1000
    return None


def find_lab_numbers(text: str) -> set[int]:
    """The labs that a name speaks of: {1} for "my_lab01 final.ipynb"."""
    return {int(number) for number in _LAB.findall(text) if len(number) < 5}


def split_upload_suffix(file: str) -> tuple[str, int]:
    """A file's name without what an upload of the same name adds, and that number:
    "a-2.ipynb", "a (2).ipynb" -> ("a", 2).
    """
    match = _AGAIN.fullmatch(file)
    if match is None:
        return file, 0
    return match["stem"], int(match["n"] or match["m"] or 0)


def normalize_name(name: str) -> str:
    """Letters and digits of a name, lower case and without accents, as Canvas squeezes
    it into a file name. Marks that spell (vowels of Hindi, Tamil or Thai, points of
    Arabic and Hebrew) stay: those of a lower combining class than accents have.
    """
    plain = unicodedata.normalize("NFKD", name).casefold()
    return "".join(
        c
        for c in plain
        if c.isalnum() or (unicodedata.category(c)[0] == "M" and unicodedata.combining(c) < _ACCENT)
    )


def printable(text: str) -> str:
    """The text with what cannot be printed (line breaks, controls, marks that turn the
    direction of writing) spelt out.
    """
    return "".join(
        (
            c
            if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co")
            or c in _JOINERS
            else c.encode("unicode-escape").decode()
        )
        for c in text
    )
