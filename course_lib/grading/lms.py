"""The marks as a learning management system takes them: ``grades-canvas.csv``, ``grades-moodle.csv``, ``grades-gradescope.csv``.

A roster says which submission is whose. It is a CSV table with one row a student, with any of these columns:

- ``name`` (or ``first name`` and ``last name``) and ``email``;
- ``canvas id``, ``sis user id``, ``sis login id``, ``section``: Canvas's; ``moodle id``: the number in Moodle's folder names
  and worksheets ("Participant 1234567"); ``sid``: the student number that Gradescope has;
- ``submission``: the id of the submission in ``grades.csv``, for what nothing else tells. Two rows with the same one handed in
  together.

The tables that the systems export themselves are rosters as they are: their headings are known (:data:`HEADINGS`). Without a
roster, what the names of the submissions say is used (:mod:`course_lib.grading.names`).

Nothing is dropped without a word: submissions that are nobody's, rows of the roster without a submission and students whom a
system could not tell apart are in :attr:`Written.unmatched` and in ``grades-unmatched.csv``.

Sources of the forms:

- Canvas: the columns, and how a row finds its student (ID, else the SIS ids, else the name), are those of
  https://github.com/instructure/canvas-lms/blob/master/lib/gradebook_importer.rb and ``gradebook_exporter.rb`` beside it. The
  last column's heading is the lab's title: change it to your assignment's, or Canvas offers to make a new one. Who is not in
  the file keeps the grade there is, an empty cell takes it away: so who has no submission is left out.
- Moodle: the assignment's "offline grading worksheet"; "Identifier", "Grade" and "Last modified (grade)" are what
  https://github.com/moodle/moodle/blob/main/mod/assign/feedback/offline/importgradeslib.php asks for. An empty grade changes
  nothing there; to replace an earlier grade, tick "Allow updating records that have been modified more recently in Moodle".
- Gradescope: the columns of an assignment's "Download Grades", for what reads that table, such as
  https://github.com/matthigger/gradescope_mean. Gradescope publishes no form and imports none: it takes marks from an
  autograder only (``course gradescope``).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from course_lib.grading import names
from course_lib.grading import report as reports
from course_lib.paths import course_root

FORMATS = ("canvas", "moodle", "gradescope")
COLUMNS = (
    "submission", "name", "first name", "last name", "email", "canvas id", "sis user id", "sis login id", "section", "moodle id", "sid",
)  # fmt: skip
HEADINGS = {  # what Canvas, Moodle and Gradescope call them
    "student": "name", "full name": "name", "fullname": "name", "firstname": "first name", "lastname": "last name",
    "surname": "last name", "email address": "email", "id": "canvas id", "sections": "section", "identifier": "moodle id",
    "id number": "sid", "student id": "sid",
}  # fmt: skip
IDENTITIES = ("canvas id", "moodle id", "email", "sid", "sis user id", "sis login id")  # one of these tells who it is
_OTHERS = ("submission id", "submission time", "username")  # in their exports; like ours, but not ours
_NUMBERS = ("canvas id", "moodle id")


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
        """Given where the roster has them, else split: at a comma ("Doe, Jane"), or before the last word."""
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
    def squashed(self) -> set[str]:
        """The name as file names may have it, whichever part comes first."""
        words = names.shown(self.name).replace(",", " ").split()
        return {names.squashed("".join(words[i:] + words[:i])) for i in range(len(words))} - {""}

    def __str__(self) -> str:
        line = f" (line {self.line} of the roster)" if self.line else ""
        return f"{names.shown(self.name or self['email'])}{line}"


@dataclass
class Written:
    """What was written.

    Attributes:
        paths: the files to upload. unmatched: a sentence for each submission, row and student that is missing in one of them.
        listed: the table ``grades-unmatched.csv`` with the same.
    """

    listed: Path
    paths: list[Path] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


def write(report: Path, formats: Sequence[str], roster: Path | None = None) -> Written:
    """Write the marks in these forms into the report's folder.

    Args:
        report: what ``course grade --out`` made. formats: some of :data:`FORMATS`. roster: a table, see above.

    Raises:
        FileNotFoundError: without a report or the roster. ValueError: for an unknown form, or a roster that cannot be used;
        the message names the line and the column. Nothing has been written then.
    """
    unknown = [f for f in formats if f not in FORMATS]
    if unknown:
        raise ValueError(f"there is no form {unknown[0]!r}: choose from {', '.join(FORMATS)}")
    people = read_roster(roster) if roster is not None else None
    results = [_Marks.of(result) for result in reports.results(report)]
    title = _title(json.loads((report / "batch.json").read_text(encoding="utf-8"))["lab"])
    missing: list[tuple[str, str, str, str]] = []
    matched = _match(results, people, missing)
    without = [p for p in people or [] if not any(p.line == q.line for q, _ in matched)]
    missing += [("roster", str(p), "", "no submission") for p in without]
    written = Written(report / "grades-unmatched.csv")
    for name in dict.fromkeys(formats):
        rows = {"canvas": _canvas, "moodle": _moodle, "gradescope": _gradescope}[name](title, matched, without, missing)
        path = report / f"grades-{name}.csv"
        reports.put(path, _csv(rows))
        written.paths.append(path)
    reports.put(written.listed, _csv([["what", "who", "total", "why"], *map(list, missing)]))
    written.unmatched = [
        f"{what} {names.shown(who)}{f', {points} points' if points else ''}: {why}"
        for what, who, points, why in missing
    ]
    return written


# --- the roster ----------------------------------------------------------------------------------------------------


def read_roster(path: Path) -> list[Person]:
    """The students of a roster; separated by commas, semicolons or tabs, in UTF-8 (with or without Excel's mark) or UTF-16.

    Raises:
        FileNotFoundError: if it is not there. ValueError: if a heading or a cell cannot be used; line and column are named.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no roster at {path}")
    rows = _rows(path)
    number, header = next(rows, (1, list[str]()))
    columns = _columns(path, number, header)
    people: list[Person] = []
    taken: dict[tuple[str, str], int] = {}
    for number, row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells) or "points possible" in cells[0].lower():  # the second line of Canvas's export
            continue
        if any(cells[len(header) :]):
            raise ValueError(
                f"{path}, line {number}: {len(row)} cells, but the heading has {len(header)}: is a separator in a cell not quoted?"
            )
        values = {column: cells[i] for i, column in columns.items() if i < len(cells) and cells[i]}
        person = Person(
            {c: _value(path, number, header[i], c, values[c]) for i, c in columns.items() if c in values}, number
        )
        if not person.name and not person["email"]:
            raise ValueError(f"{path}, line {number}, column name: empty; give a name or an email address")
        for column in IDENTITIES:
            key = (column, person[column].casefold())
            if person[column] and taken.setdefault(key, number) != number:
                raise ValueError(
                    f"{path}, line {number}, column {column}: {person[column]!r} is in line {taken[key]}, too"
                )
        people.append(person)
    if not people:
        raise ValueError(f"{path} has a heading but no students")
    return people


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    data = path.read_bytes()
    utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(
            f'{path}, line {line}: no UTF-8 text; in Excel, save it as "CSV UTF-8 (comma delimited)"'
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


def _columns(path: Path, line: int, header: list[str]) -> dict[int, str]:
    """Which of our columns each cell of the heading is; the others are let be."""
    found: dict[int, str] = {}
    for i, heading in enumerate(header):
        plain = " ".join(heading.lower().replace("_", " ").split())
        column = HEADINGS.get(plain, plain)
        if column in found.values():
            raise ValueError(f"{path}, line {line}: two columns are {column!r} ({heading.strip()!r} is the second)")
        if column in COLUMNS:
            found[i] = column
        elif plain not in _OTHERS and (close := get_close_matches(plain, [*COLUMNS, *HEADINGS], 1, 0.8)):
            raise ValueError(f"{path}, line {line}, column {heading.strip()!r}: did you mean {close[0]!r}?")
    there = set(found.values())
    if not there & {"name", "email", "last name"}:
        raise ValueError(
            f"{path}, line {line}: no column name or email; the heading is {', '.join(header) or 'empty'}. Known: {', '.join(COLUMNS)}"
        )
    if not there & {"submission", *IDENTITIES}:
        raise ValueError(
            f"{path}, line {line}: no column tells students apart; one of these is needed: submission, {', '.join(IDENTITIES)}"
        )
    return found


def _value(path: Path, line: int, heading: str, column: str, text: str) -> str:
    if column == "moodle id":
        text = text.rpartition(" ")[2]  # "Participant 1234567", in whatever language
    if column in _NUMBERS and not (text.isascii() and text.isdigit()):
        raise ValueError(f"{path}, line {line}, column {heading.strip()}: a number is expected, got {text!r}")
    if column == "email" and not (text.count("@") == 1 and text.strip("@") == text and " " not in text):
        raise ValueError(f"{path}, line {line}, column {heading.strip()}: no email address: {text!r}")
    return text


# --- whose is it ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Marks:
    """One submission's marks, out of its result."""

    id: str
    notebook: str
    submitters: tuple[dict[str, str], ...]
    points: dict[str, tuple[float, float]]  # question -> (earned, of)
    total: float
    most: float

    @classmethod
    def of(cls, result: dict[str, Any]) -> _Marks:
        extra = result["extra_data"]
        points: dict[str, tuple[float, float]] = {}
        for test in result["tests"]:
            earned, of = points.get(test["number"], (0.0, 0.0))
            points[test["number"]] = (earned + test["score"], of + test["max_score"])
        people = extra.get("submitters") or []
        return cls(
            extra["id"], extra.get("notebook", ""), tuple(people), points, result["score"], sum(of for _, of in points.values())
        )  # fmt: skip


Matched = list[tuple[Person, _Marks]]
Missing = list[tuple[str, str, str, str]]  # what, who, points, why


def _match(results: list[_Marks], people: list[Person] | None, missing: Missing) -> Matched:
    """Who gets which marks; what is nobody's goes to ``missing``."""
    if people is None:
        found = [(Person(dict(who)), m, False) for m in results for who in m.submitters]
        missing += [
            ("submission", m.id, f"{m.total:g}", "its name says nothing of the student: give a roster")
            for m in results
            if not m.submitters
        ]
    else:
        index = _Index(people)
        found = []
        for m in results:
            whose, wrong = index.of(m)
            found += whose
            missing += [("submission", m.id, f"{m.total:g}", why) for why in wrong]
    matched: Matched = []
    for person, marks, said in found:
        same = [(m, s) for p, m, s in found if _same(p, person)]
        if len(same) > 1 and not (said and sum(s for _, s in same) == 1):
            if not any(s for _, s in same) or said:
                others = ", ".join(names.shown(m.id) for m, _ in same if m is not marks)
                why = (
                    f"it is {person}'s, and so is {others}: name the one that counts in the roster's column submission"
                )
                missing.append(("submission", marks.id, f"{marks.total:g}", why))
            else:
                missing.append(
                    ("submission", marks.id, f"{marks.total:g}", f"the roster names another one for {person}")
                )
            continue
        matched.append((person, marks))
    return sorted(matched, key=lambda pair: (pair[0].line, names.squashed(pair[0].sortable), pair[1].id))


def _same(a: Person, b: Person) -> bool:
    return a.line == b.line if a.line else any(a[c] and a[c].casefold() == b[c].casefold() for c in IDENTITIES)


class _Index:
    """Finds a submission's people in a roster."""

    def __init__(self, people: list[Person]) -> None:
        self.people = people
        self.by: dict[tuple[str, str], list[Person]] = {}
        for person in people:
            for column in ("submission", *IDENTITIES):
                if person[column]:
                    self.by.setdefault((column, person[column].casefold()), []).append(person)
            if person["email"]:
                self.by.setdefault(("local part", person["email"].partition("@")[0].casefold()), []).append(person)
            for squashed in person.squashed:
                self.by.setdefault(("name", squashed), []).append(person)

    def of(self, marks: _Marks) -> tuple[list[tuple[Person, _Marks, bool]], list[str]]:
        """The students (and whether the roster names the submission itself), and sentences on whom was not found."""
        own = marks.notebook.rpartition("/")[2]
        for called in (marks.id, marks.notebook, own, own.rpartition(".")[0]):
            if called and (said := self.by.get(("submission", called.casefold()))):
                who = marks.submitters[0] if len(marks.submitters) == len(said) == 1 else {}
                return [(_with(person, who), marks, True) for person in said], []
        if marks.submitters:
            pairs = [(who, *self._one(self._asked(who))) for who in marks.submitters]
        else:
            pairs = [({}, *self._one([(c, marks.id) for c in (*IDENTITIES, "local part", "name")]))]
        whose = [(_with(person, who), marks, False) for who, person, _ in pairs if person is not None]
        return whose, [why for _, person, why in pairs if person is None]

    def _asked(self, who: dict[str, str]) -> list[tuple[str, str]]:
        return [(c, who[c]) for c in (*IDENTITIES, "name") if who.get(c)]

    def _one(self, asked: list[tuple[str, str]]) -> tuple[Person | None, str]:
        """The one student of whom something of this is true."""
        for column, value in asked:
            key = names.squashed(value) if column == "name" else value.casefold()
            found = self.by.get((column, key), []) if key else []
            if len({p.line for p in found}) == 1:
                return found[0], ""
            if found:
                return (
                    None,
                    f"{len(found)} rows of the roster fit its {column} {names.shown(value)!r}: name it in the column submission",
                )
        said = ", ".join(f"{column} {names.shown(value)!r}" for column, value in asked if column != "local part")
        return None, f"no row of the roster fits ({said})" if len(asked) < 4 else "no row of the roster fits its name"


def _with(person: Person, who: dict[str, str]) -> Person:
    """The roster's word first, then what the submission's name says (Moodle's number, say)."""
    extra = {c: v for c, v in who.items() if c != "name" or not person.name}
    return Person({**extra, **person.values}, person.line)


# --- the forms -----------------------------------------------------------------------------------------------------


def _canvas(title: str, matched: Matched, without: list[Person], missing: Missing) -> list[list[str]]:
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]]
    rows.append(["    Points Possible", "", "", "", "", f"{_most(matched):g}"])
    for p, m in matched:
        rows.append([p.sortable, p["canvas id"], p["sis user id"], p["sis login id"], p["section"], f"{m.total:g}"])
        if not (p["canvas id"] or p["sis user id"] or p["sis login id"] or p.line):
            missing.append(
                (
                    "canvas",
                    str(p),
                    f"{m.total:g}",
                    "no canvas id, sis user id or sis login id: Canvas goes by the name alone",
                )
            )
    return rows


def _moodle(title: str, matched: Matched, without: list[Person], missing: Missing) -> list[list[str]]:
    rows = [
        [
            "Identifier",
            "Full name",
            "Email address",
            "Status",
            "Grade",
            "Maximum grade",
            "Grade can be changed",
            "Last modified (grade)",
        ]
    ]
    most = f"{_most(matched):g}"
    given: list[tuple[Person, str, str]] = [(p, "Submitted for grading", f"{m.total:g}") for p, m in matched]
    for p, status, grade in given + [(p, "No submission", "") for p in without]:
        if p["moodle id"]:
            rows.append([f"Participant {p['moodle id']}", p.name, p["email"], status, grade, most, "Yes", "-"])
        else:
            why = "no moodle id, so it cannot be in Moodle's worksheet: take Moodle's own worksheet as the roster"
            missing.append(("moodle", str(p), grade, why))
    return rows


def _gradescope(title: str, matched: Matched, without: list[Person], missing: Missing) -> list[list[str]]:
    questions = {q: of for _, m in matched for q, (_, of) in m.points.items()}
    fixed = [
        "First Name",
        "Last Name",
        "SID",
        "Email",
        "Sections",
        "Total Score",
        "Max Points",
        "Status",
        "Submission ID",
    ]
    rows = [[*fixed, "Submission Time", "Lateness (H:M:S)", *(f"{q} ({of:g} pts)" for q, of in questions.items())]]
    for p, m in matched:
        about = [
            *p.first_and_last,
            p["sid"],
            p["email"],
            p["section"],
            f"{m.total:g}",
            f"{m.most:g}",
            "Graded",
            p["gradescope id"] or m.id,
        ]
        rows.append([*about, "", "", *(f"{m.points[q][0]:g}" if q in m.points else "" for q in questions)])
        if not (p["sid"] or p["email"]):
            missing.append(("gradescope", str(p), f"{m.total:g}", "neither sid nor email"))
    for p in without:
        rows.append(
            [
                *p.first_and_last,
                p["sid"],
                p["email"],
                p["section"],
                "",
                f"{_most(matched):g}",
                "Missing",
                "",
                "",
                "",
                *("" for _ in questions),
            ]
        )
    return rows


def _most(matched: Matched) -> float:
    return max((m.most for _, m in matched), default=0.0)


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    cell: Callable[[str], str] = lambda value: reports.cell(names.shown(value))  # noqa: E731
    csv.writer(text, lineterminator="\r\n").writerows(
        [value if value == "-" else cell(value) for value in row] for row in rows
    )
    return text.getvalue()


def _title(lab: str) -> str:
    """The lab's title, as its notebook has it: "Lab 01: Magnitude pruning"; outside a course its name."""
    root = course_root()
    for path in sorted((root / "labs").glob(f"{lab}_*.ipynb")) if root else []:
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except (OSError, ValueError, KeyError):
            continue
        lines = [
            line
            for cell in cells
            if cell.get("cell_type") == "markdown"
            for line in "".join(cell["source"]).splitlines()
        ]
        if heading := next((line[2:].strip() for line in lines if line.startswith("# ")), ""):
            return heading
    return lab
