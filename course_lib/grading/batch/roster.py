"""The roster: a CSV table with one row per student that says which submission is whose.

It may have any of these columns:

- ``name`` (or ``first name`` and ``last name``) and ``email``;
- ``canvas id``, ``sis user id``, ``sis login id``, ``section``: Canvas's;
  ``moodle id``: the number in Moodle's folder names and worksheets ("Participant
  1234567"); ``sid``: the student number that Gradescope has;
- ``handed in``: when, as 2026-10-12 23:59 or in another form that :mod:`.times`
  reads, for a policy;
- ``submission``: the id of the submission in ``grades.csv``, for what nothing else
  tells. Two rows with the same one handed in together.

The tables that the systems export themselves are rosters as they are: their headings
are known (:data:`HEADINGS`), and Moodle's worksheet is known in any language by what
its cells hold.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from course_lib.grading.batch import names
from course_lib.grading.batch.result import Result
from course_lib.grading.batch.submission import Submission

COLUMNS = (
    "submission",
    "name",
    "first name",
    "last name",
    "email",
    "canvas id",
    "sis user id",
    "sis login id",
    "section",
    "moodle id",
    "sid",
    "handed in",
)
HEADINGS = {  # what Canvas, Moodle and Gradescope call them
    "student": "name",
    "full name": "name",
    "fullname": "name",
    "firstname": "first name",
    "lastname": "last name",
    "surname": "last name",
    "email address": "email",
    "id": "canvas id",
    "sections": "section",
    "identifier": "moodle id",
    "id number": "sid",
    "student id": "sid",
    "submission time": "handed in",
    "last modified (submission)": "handed in",
}
# one of these tells who it is
IDENTITIES = ("canvas id", "moodle id", "email", "sid", "sis user id", "sis login id")
_OTHERS = ("submission id", "username")  # in their exports; like ours, but not ours
_NUMBERS = ("canvas id", "moodle id")
_DATED = r"(?=.*\d{4}).*\d[:.]\d\d"  # a year and a time of day


@dataclass(frozen=True)
class Person:
    """A student: what a roster's row, or the name of a submission, says.

    Attributes:
        values: by column. line: of the roster; 0 where there is none.
    """

    values: dict[str, str]
    line: int = 0

    def __getitem__(self, column: str) -> str:
        return self.values.get(column, "")

    @property
    def name(self) -> str:
        return self["name"] or f"{self['first name']} {self['last name']}".strip()

    @property
    def first_and_last(self) -> tuple[str, str]:
        """Given where the roster has them, else split: at a comma ("Doe, Jane"), or
        before the last word.
        """
        if self["first name"] or self["last name"]:
            return self["first name"], self["last name"]
        last, comma, first = self["name"].partition(",")
        if comma:
            return first.strip(), last.strip()
        first, _, last = self["name"].rpartition(" ")
        return first, last

    @property
    def sortable(self) -> str:
        """ "Doe, Jane", as Canvas lists students."""
        first, last = self.first_and_last
        return f"{last}, {first}" if first and last else first or last

    @property
    def normalized_names(self) -> set[str]:
        """The name as file names may have it, whichever part comes first."""
        words = names.printable(self.name).replace(",", " ").split()
        return {names.normalize_name("".join(words[i:] + words[:i])) for i in range(len(words))} - {
            ""
        }

    def __str__(self) -> str:
        line = f" (line {self.line} of the roster)" if self.line else ""
        return f"{names.printable(self.name or self['email'])}{line}"


@dataclass(frozen=True)
class Worksheet:
    """Where Moodle's grading worksheet has what it takes back: columns, from 0. Its
    headings are in the user's language.

    Attributes:
        grade: the mark. most: the assignment's maximum. feedback: the comment, where
            the assignment has one.
    """

    grade: int
    most: int
    feedback: int | None


@dataclass(frozen=True)
class Roster:
    """A table of students.

    Attributes:
        path: of it. people: its rows. header: its headings, as they stand. rows: its
            cells, by line.
        worksheet: is it Moodle's grading worksheet? Then it can be filled in.
    """

    path: Path
    people: list[Person]
    header: list[str] = field(default_factory=list)
    rows: dict[int, list[str]] = field(default_factory=dict)
    worksheet: Worksheet | None = None


def fold_case(text: str) -> str:
    """A name, address or id as it is compared, whatever its case and Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def read(path: Path) -> Roster:
    """A roster; separated by commas, semicolons or tabs, in UTF-8 (with or without
    Excel's mark) or UTF-16.

    Raises:
        FileNotFoundError: if it is not there. ValueError: if a heading or a cell cannot
            be used; line and column are named.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no roster at {path}")
    rows = list(cells_of(path))
    number, header = rows[0] if rows else (1, list[str]())
    body = {number: [cell.strip() for cell in row] for number, row in rows[1:]}
    # the second line of Canvas's export is no student
    body = {
        n: row for n, row in body.items() if any(row) and "points possible" not in row[0].lower()
    }
    identifiers = _identifiers(header, list(body.values()))
    columns = _columns(path, number, header, list(body.values()) if identifiers else [])
    people: list[Person] = []
    taken: dict[tuple[str, str], int] = {}
    for number, cells in body.items():
        if any(cells[len(header) :]):
            raise ValueError(
                f"{path}, line {number}: {len(cells)} cells, but the heading has {len(header)}: is"
                " a separator in a cell not quoted?"
            )
        values = {column: cells[i] for i, column in columns.items() if i < len(cells) and cells[i]}
        person = Person(
            {
                c: _value(path, number, header[i], c, values[c])
                for i, c in columns.items()
                if c in values
            },
            number,
        )
        if not person.name and not person["email"]:
            raise ValueError(
                f"{path}, line {number}, column name: empty; give a name or an email address"
            )
        same = taken.setdefault(("row", repr(values)), number)
        if person["submission"] and same != number:
            raise ValueError(f"{path}, line {number}: the same as line {same}: take one out")
        for column in IDENTITIES:
            key = (column, fold_case(person[column]))
            if person[column] and taken.setdefault(key, number) != number:
                raise ValueError(
                    f"{path}, line {number}, column {column}: {person[column]!r} is in line"
                    f" {taken[key]}, too"
                )
        people.append(person)
    if not people:
        raise ValueError(f"{path} has a heading but no students")
    worksheet = _worksheet(header, list(body.values())) if identifiers else None
    return Roster(path, people, header, body, worksheet)


def cells_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV table, each with the number of its first line.

    Raises:
        ValueError: if it is no text, or no table; the line is named.
    """
    data = path.read_bytes()
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(
            f'{path}, line {line}: no UTF-8 text; in Excel, save it as "CSV UTF-8 (comma'
            ' delimited)"'
        ) from None
    first, _, rest = text.partition("\n")
    skipped = 0
    if first.strip().lower().startswith("sep=") and len(first.strip()) == 5:  # a hint for Excel
        separator, text, skipped = first.strip()[4], rest, 1
    else:
        separator = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        start = reader.line_num + 1 + skipped
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path}, line {start}: {error}") from None
        yield start, row


def _identifiers(header: list[str], rows: list[list[str]]) -> bool:
    """Are the first cells those of Moodle's worksheet, "Participant 1234567", in any
    language? The word is the same in all of them.
    """
    plain = header[0].strip().lower() if header else ""
    if HEADINGS.get(plain, plain) in COLUMNS and plain not in ("identifier", "id"):
        return False
    found = [re.fullmatch(r"(\D*[^\W\d_]\D*)(\d+)", row[0]) for row in rows]
    return bool(found) and all(found) and len({match[1] for match in found if match}) == 1


def _worksheet(header: list[str], rows: list[list[str]]) -> Worksheet | None:
    """Where Moodle's worksheet has what, by what stands there: after the grade comes
    the maximum, the same number in each row.

    The columns are those of ``assign_grading_table`` in
    https://github.com/moodle/moodle/blob/main/mod/assign/gradingtable.php.
    """
    plain = [" ".join(heading.lower().split()) for heading in header]
    columns = list(zip(*(row + [""] * (len(header) - len(row)) for row in rows), strict=False))
    numbers = [
        i
        for i, cells in enumerate(columns)
        if i > 2 and len(set(cells)) == 1 and re.fullmatch(r"\d+([.,]\d+)?", cells[0])
    ]
    most = (
        plain.index("maximum grade") if "maximum grade" in plain else numbers[0] if numbers else 0
    )
    if not most:
        return None
    last = len(header) - 1
    said = "feedback" in plain[last] or "comment" in plain[last] or "kommentar" in plain[last]
    return Worksheet(most - 1, most, last if said and last > most + 1 else None)


def _columns(
    path: Path, line: int, header: list[str], worksheet: list[list[str]]
) -> dict[int, str]:
    """Which of our columns each cell of the heading is; the others are let be.

    Args:
        worksheet: the rows of Moodle's, whose headings may be of any language: first
            the identifier, then the name.
    """
    found: dict[int, str] = {}
    if worksheet:
        found[0] = "moodle id"
        if len(header) > 1 and HEADINGS.get(header[1].strip().lower(), "name") == "name":
            found[1] = "name"
        cells = {
            i: [row[i] for row in worksheet if i < len(row) and row[i]]
            for i in range(2, len(header))
        }
        emails = [
            i
            for i, column in cells.items()
            if column and all(cell.count("@") == 1 for cell in column)
        ]
        found |= dict.fromkeys(emails[:1], "email")
        # the last two columns of times: when a student handed in, when it was graded
        dated = [
            i
            for i, column in cells.items()
            if column and all(cell == "-" or re.search(_DATED, cell) for cell in column)
        ]
        if "handed in" not in map(_column, header):
            found |= dict.fromkeys(dated[-2:-1], "handed in")
    for i, heading in enumerate(header):
        if i in found:
            continue
        column = _column(heading)
        if column in found.values():
            raise ValueError(
                f"{path}, line {line}: two columns are {column!r} ({heading.strip()!r} is the"
                " second)"
            )
        if column in COLUMNS:
            found[i] = column
        elif (
            not worksheet
            and column not in _OTHERS
            and (close := get_close_matches(column, [*COLUMNS, *HEADINGS], 1, 0.8))
        ):
            raise ValueError(
                f"{path}, line {line}, column {heading.strip()!r}: did you mean {close[0]!r}?"
            )
    there = set(found.values())
    if not there & {"name", "email", "last name"}:
        raise ValueError(
            f"{path}, line {line}: no column name or email; the heading is"
            f" {', '.join(header) or 'empty'}. Known: {', '.join(COLUMNS)}"
        )
    if not there & {"submission", *IDENTITIES}:
        raise ValueError(
            f"{path}, line {line}: no column tells students apart; one of these is needed:"
            f" submission, {', '.join(IDENTITIES)}"
        )
    return found


def _column(heading: str) -> str:
    plain = " ".join(heading.lower().replace("_", " ").split())
    return HEADINGS.get(plain, plain)


def _value(path: Path, line: int, heading: str, column: str, text: str) -> str:
    if column == "moodle id":
        # "Participant 1234567", in whatever language
        text = text[len(text.rstrip("0123456789")) :] or text
    if column in _NUMBERS and not (text.isascii() and text.isdigit()):
        raise ValueError(
            f"{path}, line {line}, column {heading.strip()}: a number is expected, got {text!r}"
        )
    if column == "email" and not (
        text.count("@") == 1 and text.strip("@") == text and " " not in text
    ):
        raise ValueError(
            f"{path}, line {line}, column {heading.strip()}: no email address: {text!r}"
        )
    return text


# --- whose is it ----------------------------------------------------------------------


class Index:
    """Finds a submission's people in a roster."""

    def __init__(self, people: list[Person]) -> None:
        self.people = people
        self.by: dict[tuple[str, str], list[Person]] = {}
        for person in people:
            for column in ("submission", *IDENTITIES):
                if person[column]:
                    self.by.setdefault((column, fold_case(person[column])), []).append(person)
            if person["email"]:
                self.by.setdefault(
                    ("local part", fold_case(person["email"].partition("@")[0])), []
                ).append(person)
            for squashed in person.normalized_names:
                self.by.setdefault(("name", squashed), []).append(person)

    def of(self, submission: Submission | Result) -> tuple[list[tuple[Person, bool]], list[str]]:
        """The students (and whether the roster names the submission itself), and
        sentences on whom was not found.
        """
        own = submission.notebook.rpartition("/")[2]
        for called in (submission.id, submission.notebook, own, own.rpartition(".")[0]):
            if called and (said := self.by.get(("submission", fold_case(called)))):
                who = (
                    submission.submitters[0] if len(submission.submitters) == len(said) == 1 else {}
                )
                return [(_with(person, who), True) for person in said], []
        if submission.submitters:
            asked = [
                (who, [(c, who[c]) for c in (*IDENTITIES, "name") if who.get(c)])
                for who in submission.submitters
            ]
        else:
            asked = [({}, [(c, submission.id) for c in (*IDENTITIES, "local part", "name")])]
        pairs = [(who, *self._one(values)) for who, values in asked]
        whose = [(_with(person, who), False) for who, person, _ in pairs if person is not None]
        return whose, [why for _, person, why in pairs if person is None]

    def _one(self, asked: list[tuple[str, str]]) -> tuple[Person | None, str]:
        """The one student of whom something of this is true."""
        for column, value in asked:
            key = names.normalize_name(value) if column == "name" else fold_case(value)
            found = self.by.get((column, key), []) if key else []
            if len({p.line for p in found}) == 1:
                return found[0], ""
            if found:
                return None, (
                    f"{len(found)} rows of the roster fit its {column} {names.printable(value)!r}:"
                    " name it in the column submission"
                )
        said = ", ".join(
            f"{column} {names.printable(value)!r}"
            for column, value in asked
            if column != "local part"
        )
        return None, (
            f"no row of the roster fits ({said})"
            if len(asked) < 4
            else "no row of the roster fits its name"
        )


def _with(person: Person, who: dict[str, str]) -> Person:
    """The roster's word first, then what the submission's name says (Moodle's number,
    say).
    """
    extra = {c: v for c, v in who.items() if c != "name" or not person.name}
    return Person({**extra, **person.values}, person.line)
