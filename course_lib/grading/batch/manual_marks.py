"""``marks.csv``: marks and comments by a person, beside those that the tests give.

A table with the columns ``id`` (as in ``grades.csv``), ``question``, ``points`` and
``comment``. Points with a sign, "+1" or "-0.5", are added to what the tests gave;
without one, "2", they replace it; where the cell is empty, there is only the comment.
Either way a question keeps between nothing and its maximum. A row for the question
``all`` with 0 points gives 0 for every question: so a person decides that a submission
which could not be graded gets 0. The file is read at every
grading and changes nothing of what the tests said, so taking a row out undoes it.

A row for an answer that no test judges, such as "prediction_1_1" (:mod:`.written`), gives
bonus points: they make up for points lost elsewhere, up to the lab's maximum.

A question of which the lab's contract says that a person marks it (``Asked.by_hand``)
is "pending" until it has a row with points.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from unicodedata import normalize

from course_lib.grading.batch.collect import ids_in, printable
from course_lib.grading.batch.result import MARKED, OPTIONAL, PENDING, ClaimResult, read_batch
from course_lib.labs.contract import order
from course_lib.paths import course_root

COLUMNS = ("id", "question", "points", "comment")
ALL = "all"  # in the place of a question: every one of them


@dataclass(frozen=True)
class Mark:
    """One row: who, which question, how many points (None: only a comment), whether
    they add to the tests', where it stands.
    """

    id: str
    question: str
    points: float | None
    adds: bool
    comment: str
    line: int


Marks = dict[str, list[Mark]]  # by submission


def find(report: Path, given: Path | None = None) -> Path | None:
    """The table of a person's marks: as given, as in the last run, or in the report's folder."""
    known = read_batch(report) if (report / "batch.json").is_file() else {}
    given = report / known["marks"] if given is None and "marks" in known else given
    return given or (report / "marks.csv" if (report / "marks.csv").is_file() else None)


def check_before(report: Path, given: Path | None, submissions: Path) -> None:
    """Say what is wrong with the table of a report that is there already, in a second: from what
    the last run knew of the questions, before torch is loaded. Where the lab has changed since,
    this is left to the run.

    Raises:
        FileNotFoundError, ValueError: as :func:`check`.
    """
    path, known = find(report, given), report / "batch.json"
    if path and known.is_file() and submissions.exists():
        batch, root = read_batch(report), course_root() or report
        places = "tests/labs/{0}/*.py labs/{0}_* course_lib/labs/{0}.py".format(batch["lab"])
        files = [file for place in places.split() for file in root.glob(place)]
        if all(file.stat().st_mtime <= known.stat().st_mtime for file in files):
            read_checked(path, ids_in(submissions), batch["most"])


def read_checked(path: Path, ids: Iterable[str], most: Mapping[str, float]) -> Marks:
    """:func:`read` and :func:`check` in one, with all wrong lines in one message."""
    problems: list[str] = []
    return check(path, read(path, problems), ids, most, problems)


def read(path: Path, problems: list[str] | None = None) -> list[Mark]:
    """The rows of a table of marks.

    Args:
        problems: takes a sentence for each wrong line, for :func:`check` to raise with its own.

    Raises:
        FileNotFoundError: if it is not there. ValueError: if a column is missing, or without
            ``problems`` if a cell cannot be read; lines are named.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no table of marks at {path}")
    rows = list(cells_of(path))
    header = [heading.strip().lower() for heading in rows[0][1]] if rows else []
    wrong = [name for name in COLUMNS[:3] if name not in header] + [
        h for h in header if h and h not in COLUMNS
    ]
    if wrong or len(set(header)) < len(header):
        raise ValueError(
            f"{path}, line 1: the heading is {', '.join(header) or 'empty'}; expected are"
            f" {', '.join(COLUMNS)}"
        )
    marks: list[Mark] = []
    raised, problems = problems is None, [] if problems is None else problems
    for line, row in rows[1:]:
        if not any(cell.strip() for cell in row):
            continue
        if torn := _torn(header, row):
            problems.append(
                f"line {line}: {torn!r} is in two cells: write {torn.replace(',', '.')}, with a"
                " point (or, if it is points and a comment, the comment in words)"
            )
            continue
        if any(cell.strip() for cell in row[len(header) :]):
            problems.append(
                f"line {line}: {len(row)} cells, but the heading has {len(header)}: put a comment"
                " with a comma in quotes"
            )
            continue
        cells = dict(zip(header, [cell.strip() for cell in row], strict=False))
        text = cells.get("points", "").lstrip("'").replace(",", ".").replace("\N{MINUS SIGN}", "-")
        points = float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", text) else None
        if text and points is None:
            problems.append(f"line {line}: {text!r} are no points: write 2, +1 or -0.5")
        elif not text and not cells.get("comment"):
            problems.append(
                f"line {line}: neither points nor a comment: write one, or take the line out"
            )
        question = cells.get("question", "").lstrip("'qQ")
        marks.append(
            Mark(
                cells.get("id", ""),
                question,
                points,
                text[:1] in ("+", "-"),
                cells.get("comment", ""),
                line,
            )
        )
    if raised:
        _raise(path, problems)
    return marks


def _torn(header: list[str], row: list[str]) -> str:
    """The points whose decimal comma, in a table with commas, begins another cell."""
    first = header.index("points")
    whole, digits = ([cell.strip() for cell in row[first:]] + ["", ""])[:2]
    next_is = header[first + 1] if first + 1 < len(header) else ""
    torn = next_is in ("", "comment") and re.fullmatch(r"'?[+-]?\d+,\d+", f"{whole},{digits}")
    return f"{whole},{digits}" if torn else ""


def check(
    path: Path,
    marks: Sequence[Mark],
    ids: Iterable[str],
    most: Mapping[str, float],
    problems: Sequence[str] = (),
) -> dict[str, list[Mark]]:
    """The marks by submission.

    Args:
        ids: of the submissions. most: each question's maximum. problems: of :func:`read`.

    Raises:
        ValueError: for whom or what there is not, points above the maximum, two rows
            for one; a sentence each, with what to do.
    """
    ids = list(ids)
    known = {normalize("NFC", id): id for id in ids} | {id: id for id in ids}
    # as grades.csv has it, for spreadsheets
    known |= {f"'{id}": known[id] for id in known if id[:1] in "=+-@"}
    found: dict[str, list[Mark]] = {}
    taken: dict[tuple[str, str], int] = {}
    problems = list(problems)
    for m in _expanded(marks, most):
        id = known.get(m.id) or known.get(normalize("NFC", m.id))
        if id is None:
            near = get_close_matches(m.id, known, 1)
            remedy = (
                f"did you mean {printable(near[0])!r}?"
                if near
                else "write the id as grades.csv has it, or take the line out"
            )
            problems.append(f"line {m.line}: there is no submission {printable(m.id)!r}: {remedy}")
        if m.question == ALL:
            problems.append(
                f"line {m.line}: {ALL!r} takes the points 0 only: write 0, or a row per question"
            )
        elif m.question not in most:
            problems.append(
                f"line {m.line}: there is no question {m.question!r}: there are {', '.join(most)}"
            )
        elif (
            m.points is not None and not -most[m.question] * m.adds <= m.points <= most[m.question]
        ):
            problems.append(
                f"line {m.line}: {m.points:{'+' if m.adds else ''}g} points, but {m.question} has"
                f" {most[m.question]:g}: write at {'least -' if m.points < 0 else 'most '}"
                f"{most[m.question]:g}"
            )
        first = taken.setdefault((id or m.id, m.question), m.line)
        if first != m.line:
            problems.append(
                f"line {m.line}: {printable(m.id)} has a row for {m.question} in line {first}"
                " already: make one of the two"
            )
        if id is not None:
            found.setdefault(id, []).append(m)
    _raise(path, problems)
    return found


def _expanded(marks: Sequence[Mark], most: Mapping[str, float]) -> Iterator[Mark]:
    """A row of 0 for "all" as a row per question."""
    most = {question: points for question, points in most.items() if not _is_written(question)}
    for mark in marks:
        if mark.question != ALL or mark.points != 0 or mark.adds:
            yield mark
        else:
            yield from (replace(mark, question=question) for question in most)


def _raise(path: Path, problems: list[str]) -> None:
    if problems:
        problems = sorted(problems, key=lambda p: int(re.findall(r"\d+", p)[0]))
        raise ValueError("\n".join(f"{path}, {problem}" for problem in problems))


def merge(
    entries: Iterable[ClaimResult], marks: Iterable[Mark], waiting: Mapping[str, float]
) -> list[ClaimResult]:
    """The entries of a result: those of the tests, and behind them those of a person,
    question by question.

    Args:
        entries: of a result; those of a person among them are made again.
        waiting: the questions that a person marks, with their points.
    """
    merged = [entry for entry in entries if not entry.by_hand]
    by_question = {m.question: m for m in marks if not _is_written(m.question)}
    written = [
        ClaimResult(
            m.question, m.question, m.points or 0.0, 0.0, MARKED, m.comment, by_hand=True,
            tags=(OPTIONAL,),
        )
        for m in marks
        if _is_written(m.question)
    ]  # fmt: skip
    for question in {**by_question, **waiting}:
        mark, most = by_question.get(question), waiting.get(question, 0.0)
        automatic = [entry for entry in merged if entry.number == question]
        earned = sum(entry.score for entry in automatic)
        points = earned
        marked = mark is not None and mark.points is not None
        if mark is not None and mark.points is not None:
            points = mark.points + earned * mark.adds
        kept = min(max(points, 0.0), most + sum(entry.max_score for entry in automatic))
        comment = mark.comment if mark is not None else ""
        if kept != points:
            bound = "most" if kept < points else "least"
            comment += f"{' ' * bool(comment)}(the question has {kept:g} at {bound})"
        status = MARKED if marked or not most else PENDING
        name = f"{question} by a person"
        tags = automatic[0].tags if automatic else ()
        given = kept - earned
        merged.append(
            ClaimResult(question, name, given, most, status, comment, by_hand=True, tags=tags)
        )
    return [*sorted(merged, key=lambda entry: order(entry.number)), *written]


def _is_written(question: str) -> bool:
    return not question[:1].isdigit()


def cells_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV table (commas, semicolons, tabs; UTF-8, or UTF-16 as Excel writes it),
    each with the number of its first line.

    Raises:
        FileNotFoundError: if it is not there. ValueError: if it is no table.
    """
    text, separator, _ = decode(path)
    reader = csv.reader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=separator, strict=True
    )
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise ValueError(f"{path}, line {start}: {error}") from None
        if row is None:
            return
        yield start, row


def decode(path: Path) -> tuple[str, str, str]:
    """A CSV table's text with its byte order mark, its separator and its encoding.

    Raises:
        FileNotFoundError: if it is not there. ValueError: if it is no text.
    """
    data = path.read_bytes()
    marks = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
    encoding = marks.get(data[:2], "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise ValueError(f'{path} is no UTF-8 text: in Excel, save it as "CSV UTF-8"') from None
    return text, max(",;\t", key=text.partition("\n")[0].count), encoding
