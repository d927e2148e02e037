"""What the name of a handed-in file or folder says: whose it is, and which of several
is the newest.

Only names that a learning management system or a collecting tool wrote are believed;
two files that merely look alike (``smith.ipynb`` and ``smith-2.ipynb``) may be two
people's, and stay two submissions.

Sources of the patterns:

- Canvas, ``doejane_LATE_12345_67890_lab01-1.ipynb`` (name, LATE, user, attachment, the
  student's own name; Canvas adds -1, -2 when a file is handed in again;
  ``doejane_12345_text.html`` is what was typed in), ``anon_a1B2c_67890_lab01.ipynb``
  where grading is anonymous: ``get_filename`` and ``add_upload_submission`` in
  https://github.com/instructure/canvas-lms/blob/master/lib/content_zipper.rb. Names are
  letters with their marks, digits and underscores there (Ruby's ``[[:word:]]``; none
  where a name has only other signs), and who is called ``a___12___34___b`` gets the
  start ``a__12__34__b_``: such a name has two readings.
- Moodle, ``Jane Doe_1234567_assignsubmission_file_`` (a folder, or the start of a
  file's name; the name's own underscores are blanks there, so the first number is
  Moodle's and what follows is the student's): ``get_student_prefix`` in
  https://github.com/moodle/moodle/blob/main/mod/assign/classes/downloader.php
- Gradescope, ``submission_123456789`` folders beside a ``submission_metadata.yml`` with
  ``:submitters:`` and ``:created_at:``: its "Export Submissions"; Gradescope describes
  the file nowhere, the keys are those that public tools read
- nbgrader, ``jdoe+lab01+2024-05-01 10:11:12 UTC``:
  https://github.com/jupyter/nbgrader/blob/main/nbgrader/exchange/default/submit.py
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import regex as re  # knows letters' marks, \p{M}, which the standard library's does not

# A class's own scheme, "hw_2024_17_final.ipynb" or "lab01_12_3_x.ipynb", must not be
# taken for one student's many files: the user is no year, and where the name is more
# than letters (a group's has digits) Canvas's numbers are long.
_CANVAS = re.compile(
    r"(?:(?P<name>[\p{L}\p{M}]+)(?P<late>_late)?_(?!(?:19|20)\d\d_)(?P<user>\d+)_"
    r"(?:(?P<number>\d+)_(?P<file>.+)|(?P<typed>(?:text|link)\.html))"
    r"|(?P<name>(?:[\p{Nd}\p{Pc}]*\p{L}[\p{L}\p{M}\p{Nd}\p{Pc}]*?)??)(?P<late>_late)?"
    r"_(?!(?:19|20)\d\d_)(?P<user>\d{4,})_"
    r"(?:(?P<number>\d{5,})_(?P<file>.+)|(?P<typed>(?:text|link)\.html)))",
    re.IGNORECASE | re.DOTALL,
)
_ANON = re.compile(
    r"(?P<late>late_)?(?P<name>anon_[a-z0-9]{5})_(?:(?P<number>\d+)_(?P<file>.+)|(?P<typed>(?:text|link)\.html))",
    re.IGNORECASE | re.DOTALL,
)
_CANVAS_NUMBERS = re.compile(r"(?=_(?!(?:19|20)\d\d_)([1-9]\d*)_([1-9]\d*)_)")
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?", re.DOTALL
)
_GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")
_NBGRADER = re.compile(
    r"(?P<student>.+?)\+(?P<lab>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d[^+]*(?:\+\d\d:?\d\d)?)(?:\+.*)?"
)
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


@dataclass(frozen=True)
class Name:
    """One name, read.

    Attributes:
        key: the same for everything of one student. id: how that student's submission
            is called in tables.
        prefix: what the system wrote beside the key, the student's name say. Where it
            differs, so may the students.
        claims: the people that it says it is of. unsure: could the student's own part
            have posed as the system's?
        start: what Canvas wrote before the student's file name, with the numbers by
            which it takes files back.
        late: does the system say that it came late, or in time? None where it says
            neither.
        file: the student's own file name. number: of the upload, larger = later; None
            where the name has none.
        stamp: when it was handed in (seconds since 1970, UTC), or None. who: what is
        known of the student, by the column names of a roster ("canvas id", "moodle id",
        "name", "email", "sid").
    """

    key: tuple[str, str]
    id: str
    file: str = ""
    number: int | None = None
    stamp: float | None = None
    who: tuple[dict[str, str], ...] = field(default=())
    prefix: str = ""
    claims: tuple[str, ...] = ()
    unsure: bool = False
    late: bool | None = None
    start: str = ""

    @property
    def known(self) -> bool:
        """Did a learning management system write this name?"""
        return self.key[0] != "name"


def read(name: str, id: str, metadata: dict[str, Any] | None = None, folder: bool = True) -> Name:
    """Read the name of a file or folder: from the left, for there the system's part
    begins. Composed and decomposed accents (NFC, NFD) are the same name.

    Args:
        name: with its suffix. id: what to call the submission where the name says
            nothing.
        metadata: Gradescope's ``submission_metadata.yml``, where there is one.
        folder: is it a folder? Those of nbgrader and Gradescope are; a file of such a
            name is a student's own idea.
    """
    name, id = unicodedata.normalize("NFC", name), unicodedata.normalize("NFC", id)
    if match := _ANON.fullmatch(name):
        return _canvas(match, match["name"].lower(), match["name"], "", ())
    if match := _CANVAS.fullmatch(name):
        who = {"canvas id": match["user"], "name": match["name"]}
        return _canvas(
            match, match["user"], f"{match['name']}_{match['user']}", _same(match["name"]), (who,)
        )
    if match := _MOODLE.fullmatch(name):
        who = {"moodle id": match["id"], "name": match["name"]}
        return Name(
            ("moodle", match["id"]),
            f"{match['name']}_{match['id']}",
            match["file"] or "",
            who=(who,),
            prefix=_same(match["name"]),
            claims=(f"Moodle's {match['id']}",),
        )
    if (match := _NBGRADER.fullmatch(name)) and folder:
        return Name(
            ("nbgrader", match["student"]), match["student"], stamp=parse_timestamp(match["time"])
        )
    if (match := _GRADESCOPE.fullmatch(name)) and folder and metadata is not None:
        return _gradescope(name, match["id"], metadata.get(name))
    return Name(("name", name), id, name)


def _canvas(
    match: re.Match[str], user: str, id: str, prefix: str, who: tuple[dict[str, str], ...]
) -> Name:
    file = match["file"] or match["typed"]
    # Could numbers further on be the real ones? Not those much shorter than this
    # user's, nor this user's (who handed in a file that Canvas had named), nor a day
    # and a time.
    unsure = any(
        len(later) > len(user) - 3
        and later != user
        and parse_timestamp(f"{later}_{attachment}") is None
        for later, attachment in _CANVAS_NUMBERS.findall("_" + file)
    )
    number = int(match["number"][:18]) if match["number"] else None
    return Name(
        ("canvas", user),
        id,
        file,
        number,
        who=who,
        prefix=prefix,
        claims=(f"Canvas's {user}",),
        unsure=unsure,
        late=bool(match["late"]),
        start=match.string.removesuffix(file) if match["number"] else "",
    )


def _gradescope(name: str, number: str, entry: Any) -> Name:
    """A folder of Gradescope's export: several people may have handed it in
    together.
    """
    entry = entry if isinstance(entry, dict) else {}
    people = entry.get(":submitters") or []
    who = tuple(
        {
            column: str(person[key])
            for column, key in (("name", ":name"), ("email", ":email"), ("sid", ":sid"))
            if person.get(key) not in (None, "")
        }
        | {"gradescope id": number}
        for person in (people if isinstance(people, list) else [])
        if isinstance(person, dict)
    )
    when = entry.get(":created_at")
    if isinstance(when, datetime):
        seconds: float | None = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    else:
        seconds = parse_timestamp(str(when)) if when else None
    # a name alone does not tell who it is: there may be two of them
    claims = tuple(sorted({(p.get("email") or p.get("sid") or "").casefold() for p in who}))
    key = "\n".join(claims) if all(claims) and claims else number
    return Name(
        ("gradescope", key),
        name,
        "",
        int(number[:18]),
        seconds,
        who or ({"gradescope id": number},),
        claims=tuple(claim for claim in claims if claim),
    )


def _same(name: str) -> str:
    """Equal for one person's name however it was packed and unpacked (accents in one
    sign or two, blanks).
    """
    return normalize_name(name) or name


def parse_timestamp(text: str) -> float | None:
    """Seconds since 1970 of "2024-05-01T10-11-12", "20240501_1011", "attempt 2" (its
    number) or a Unix time; else None.
    """
    text = text.strip()
    if match := _STAMP.fullmatch(text):
        parts = [int(part or 0) for part in match.groups()[:6]]
        sign, hours, minutes = match.groups()[6:]
        east = (
            timedelta(hours=int(f"{sign}{hours}"), minutes=int(f"{sign}{minutes}"))
            if sign
            else timedelta(0)
        )
        try:
            zone = timezone(-east if match["sign"] == "-" else east)
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
