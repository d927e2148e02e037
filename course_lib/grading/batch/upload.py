"""The marks as a learning management system takes them: ``grades-canvas.csv``,
``grades-moodle.csv``, ``grades-gradescope.csv``.

A roster (:mod:`course_lib.grading.batch.roster`) says which submission is whose.
Without one, what the names of the submissions say is used
(:mod:`course_lib.grading.batch.names`).

Nothing is dropped without a word: submissions that are nobody's, rows of the roster
without a submission and students whom a system could not tell apart are in
:attr:`Written.unmatched` and in ``grades-unmatched.csv``.

Sources of the forms:

- Canvas: the columns, and how a row finds its student (ID, else the SIS ids, else the
  name), are those of
  https://github.com/instructure/canvas-lms/blob/master/lib/gradebook_importer.rb and
  ``gradebook_exporter.rb`` beside it. The last column's heading must be the
  assignment's, "Lab 1 (98765)", or Canvas offers to make a new one: it is taken from
  Canvas's own export. Who is not in the file keeps the grade there is, an empty cell
  takes it away: so who has no submission is left out.
- Moodle: the assignment's "offline grading worksheet"; its headings are compared in the
  user's language
  (https://github.com/moodle/moodle/blob/main/mod/assign/feedback/offline/importgradeslib.php).
  So where the roster is that worksheet, it is filled in and stays as it is otherwise.
  An empty grade changes nothing there; to replace an earlier grade, tick "Allow
  updating records that have been modified more recently in Moodle".
- Gradescope: the columns of an assignment's "Download Grades", for what reads that
  table, such as https://github.com/matthigger/gradescope_mean. Gradescope publishes no
  form and imports none: it takes marks from an autograder only (``course gradescope``).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from course_lib.grading.batch import handback, names, origin
from course_lib.grading.batch import report as reports
from course_lib.grading.batch import roster as rosters
from course_lib.grading.batch.result import PENDING, Result, read_all, read_batch
from course_lib.grading.batch.roster import IDENTITIES, Person, Roster, Worksheet

FORMATS = ("canvas", "moodle", "gradescope")


@dataclass
class Written:
    """What was written.

    Attributes:
        paths: the files to upload. unmatched: a sentence for each submission, row and
            student that is missing in one of them.
        listed: the table ``grades-unmatched.csv`` with the same. remarks: what to know
            before uploading, in sentences.
    """

    listed: Path
    paths: list[Path] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Class:
    """What the forms are filled from.

    Attributes:
        lab: "lab01". matched: who gets which marks. without: who handed in nothing.
            assignment: its heading in Canvas, if named.
        missing: takes what is in no form. remarks: takes what to know before uploading.
    """

    lab: str
    matched: Matched
    without: list[Person]
    roster: Roster | None
    assignment: str
    missing: Missing
    remarks: list[str]

    @property
    def most(self) -> float:
        return max((m.max_score for _, m in self.matched), default=0.0)

    def note_if_pending(self, form: str, person: Person, result: Result) -> bool:
        """Has a person still to mark something of it? Then it has no grade yet, and
        that is said.
        """
        why = ""
        if result.undecided:
            why = (
                f"{result.status}, without a grade until a person has looked: summary.html says why"
            )
        elif waiting := result.pending:
            why = (
                f"{', '.join(waiting)} {'is' if len(waiting) == 1 else 'are'} pending:"
                " a person marks it, in marks.csv"
            )
        if why:
            points = "" if result.undecided else f"{result.score:g}"
            self.missing.append((form, str(person), points, why))
        return bool(why)


def write(
    report: Path,
    formats: Sequence[str],
    roster: Path | None = None,
    assignment: str = "",
    pending_as_zero: bool = False,
) -> Written:
    """Write the marks in these forms into the report's folder.

    Args:
        report: what ``course grade --out`` made. formats: some of :data:`FORMATS`.
            roster: a table of students.
        assignment: what it is called in Canvas, by default as the roster has it.
        pending_as_zero: what a person has still to mark counts as 0, instead of holding
            the total back.

    Raises:
        FileNotFoundError: without a report or the roster. ValueError: for an unknown
        form, or a roster that cannot be used; the message names the line and the
        column. Nothing has been written then.
    """
    unknown = [f for f in formats if f not in FORMATS]
    if unknown:
        raise ValueError(f"there is no form {unknown[0]!r}: choose from {', '.join(FORMATS)}")
    table = rosters.read(roster) if roster is not None else None
    results = list(read_all(report))
    if pending_as_zero:
        results = [result.with_pending_as_zero() for result in results]
    lab = read_batch(report)["lab"]
    written = Written(report / "grades-unmatched.csv")
    missing: Missing = []
    matched = _match(results, table.people if table else None, missing)
    without = [
        p for p in (table.people if table else []) if not any(p.line == q.line for q, _ in matched)
    ]
    missing += [("roster", str(p), "", "no submission") for p in without]
    students = _Class(lab, matched, without, table, assignment, missing, written.remarks)
    forms = {name: _FORMS[name](students) for name in dict.fromkeys(formats)}
    for name, rows in forms.items():
        written.paths.append(report / f"grades-{name}.csv")
        reports.write_text(written.paths[-1], _csv(rows))
    moodle: dict[str, list[tuple[str, str]]] = {}
    for person, marks in matched if "moodle" in forms else []:
        if person["moodle id"]:
            moodle.setdefault(marks.id, []).append((person.name, person["moodle id"]))
    handback.write(report, moodle)
    reports.write_text(written.listed, _csv([["what", "who", "total", "why"], *map(list, missing)]))
    written.unmatched = [
        f"{what} {names.printable(who)}{f', {points} points' if points else ''}: {why}"
        for what, who, points, why in missing
    ]
    return written


# --- whose is it ----------------------------------------------------------------------


Matched = list[tuple[Person, Result]]
Missing = list[tuple[str, str, str, str]]  # what, who, points, why


def _match(results: list[Result], people: list[Person] | None, missing: Missing) -> Matched:
    """Who gets which marks; what is nobody's goes to ``missing``."""
    index = rosters.Index(people) if people is not None else None
    found: list[tuple[Person, Result, bool]] = []  # the last: does the roster name it itself?
    for m in results:
        if index:
            whose, wrong = index.of(m)
        else:
            whose = [(Person(dict(who)), False) for who in m.submitters]
            wrong = [] if whose else ["its name says nothing of the student: give a roster"]
        found += [(person, m, said) for person, said in whose]
        missing += [("submission", m.id, f"{m.score:g}", why) for why in wrong]
    matched: Matched = []
    for person, marks, said in found:
        same = [(m, s) for p, m, s in found if _same(p, person)]
        named = sum(s for _, s in same)
        if len(same) == 1 or (said and named == 1):
            matched.append((person, marks))
            continue
        why = f"the roster names another one for {person}"
        if said or not named:
            others = ", ".join(names.printable(m.id) for m, _ in same if m is not marks)
            why = (
                f"it is {person}'s, and so is {others}: name the one that counts in the"
                " roster's column submission"
            )
        missing.append(("submission", marks.id, f"{marks.score:g}", why))
    return sorted(
        matched, key=lambda pair: (pair[0].line, names.normalize_name(pair[0].sortable), pair[1].id)
    )


def _same(a: Person, b: Person) -> bool:
    return (
        a.line == b.line
        if a.line
        else any(a[c] and a[c].casefold() == b[c].casefold() for c in IDENTITIES)
    )


# --- the forms ------------------------------------------------------------------------


def _canvas(all: _Class) -> list[list[str]]:
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", _heading(all)]]
    rows.append(["    Points Possible", "", "", "", "", f"{all.most:g}"])
    for p, m in all.matched:
        # an empty cell would take away a grade that is there
        if all.note_if_pending("canvas", p, m):
            continue
        about = (p[c] for c in ("canvas id", "sis user id", "sis login id", "section"))
        rows.append([p.sortable, *about, f"{m.score:g}"])
        if not (p["canvas id"] or p["sis user id"] or p["sis login id"] or p.line):
            why = "no canvas id, sis user id or sis login id: Canvas goes by the name alone"
            all.missing.append(("canvas", str(p), f"{m.score:g}", why))
    return rows


def _heading(all: _Class) -> str:
    """What Canvas calls the assignment, so that it knows it: as its export has it,
    title and number.
    """
    offered = [h.strip() for h in all.roster.header] if all.roster else []
    offered = [heading for heading in offered if re.fullmatch(r".+ \(\d+\)", heading)]
    title = all.assignment.strip()
    if title:
        same = [
            h
            for h in offered
            if title.casefold() in (h.casefold(), h.rpartition(" (")[0].casefold())
        ]
        if len(same) == 1 or not offered:
            return same[0] if same else title
        why = f"{len(same)} columns" if same else "no column"
        raise ValueError(f"the roster has {why} {title!r}: name one of {', '.join(offered)}")
    same = [
        heading
        for heading in offered
        if names.find_lab_numbers(heading) == names.find_lab_numbers(all.lab)
    ]
    if len(same) == 1:
        return same[0]
    remedy = (
        f"one of {', '.join(offered)}"
        if offered
        else "as Canvas's own export has it, or give that as the roster"
    )
    title = _title(all.lab)
    all.remarks.append(
        f"canvas: the column is headed {title!r}, and Canvas would make a new assignment of it:"
        f" name yours with --assignment, {remedy}"
    )
    return title


def _moodle(all: _Class) -> list[list[str]]:
    if all.roster and all.roster.worksheet:
        return _filled_in(all, all.roster, all.roster.worksheet)
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
            "Feedback comments",
        ]
    ]
    given = []
    for p, m in all.matched:
        grade = "" if all.note_if_pending("moodle", p, m) else f"{m.score:g}"
        given.append((p, "Submitted for grading", grade, _summary_line(m)))
    for p, status, grade, told in given + [(p, "No submission", "", "") for p in all.without]:
        if p["moodle id"]:
            about = [f"Participant {p['moodle id']}", p.name, p["email"], status]
            rows.append([*about, grade, f"{all.most:g}", "Yes", "-", told])
        else:
            why = (
                "no moodle id, so it cannot be in Moodle's worksheet: take Moodle's own worksheet"
                " as the roster"
            )
            all.missing.append(("moodle", str(p), grade, why))
    return rows


def _summary_line(result: Result) -> str:
    """The marks in a line, for a student who reads nothing else."""
    each = ", ".join(
        f"{q}{' (optional)' * (q in result.optional)}:"
        f" {PENDING if q in result.pending else f'{earned:g}'} of {of:g}"
        for q, (earned, of) in result.points.items()
    )
    late = f"; {result.late_report}" if result.late_report else ""
    return f"{result.score:g} of {result.max_score:g} points ({each}){late}"


def _filled_in(all: _Class, roster: Roster, where: Worksheet) -> list[list[str]]:
    """Moodle's own worksheet with the marks in it: its headings and words are of the
    language that it reads.
    """
    marks = {p.line: m for p, m in all.matched if not all.note_if_pending("moodle", p, m)}
    theirs = {
        row[where.most].replace(",", ".") for row in roster.rows.values() if where.most < len(row)
    }
    if (maximum := {float(m) for m in theirs if m}) and maximum != {all.most}:
        given = " and ".join(f"{m:g}" for m in sorted(maximum))
        all.remarks.append(
            f"moodle: the assignment's maximum is {given}, the lab has {all.most:g} points: make"
            " them the same"
        )
    rows = [list(roster.header)]
    for line, cells in roster.rows.items():
        row = cells + [""] * (len(roster.header) - len(cells))
        if line in marks:
            row[where.grade] = f"{marks[line].score:g}"
            if where.feedback is not None:
                row[where.feedback] = _summary_line(marks[line])
        rows.append(row)
    if where.feedback is None:
        all.remarks.append(
            "moodle: the worksheet has no column for comments: turn on 'Feedback comments' in the"
            " assignment for one"
        )
    return rows


def _gradescope(all: _Class) -> list[list[str]]:
    questions = {q: of for _, m in all.matched for q, (_, of) in m.points.items()}
    header = [
        "First Name",
        "Last Name",
        "SID",
        "Email",
        "Sections",
        "Total Score",
        "Max Points",
        "Status",
        "Submission ID",
        "Submission Time",
        "Lateness (H:M:S)",
        *(f"{q} ({of:g} pts)" for q, of in questions.items()),
    ]

    def about(p: Person) -> list[str]:
        return [*p.first_and_last, *(p[c] for c in ("sid", "email", "section"))]

    rows = [header]
    for p, m in all.matched:
        waits = all.note_if_pending("gradescope", p, m)
        grade = ["" if waits else f"{m.score:g}", f"{m.max_score:g}"]
        when = ""
        if m.time is not None:
            when = datetime.fromtimestamp(m.time, UTC).strftime("%Y-%m-%d %H:%M:%S %z")
        upload = [p["gradescope id"] or m.id, when, (m.lateness or {}).get("late", "")]
        points = [
            PENDING if q in m.pending else f"{m.points[q][0]:g}" if q in m.points else ""
            for q in questions
        ]
        status = "Pending" if waits else "Graded"
        rows.append([*about(p), *grade, status, *upload, *points])
        if not (p["sid"] or p["email"]):
            all.missing.append(("gradescope", str(p), f"{m.score:g}", "neither sid nor email"))
    for p in all.without:
        row = [*about(p), "", f"{all.most:g}", "Missing"]
        rows.append(row + [""] * (len(header) - len(row)))
    return rows


_FORMS: dict[str, Callable[[_Class], list[list[str]]]] = {
    "canvas": _canvas,
    "moodle": _moodle,
    "gradescope": _gradescope,
}


def _csv(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(
        ["-" if value == "-" else reports.cell(names.printable(value)) for value in row]
        for row in rows
    )
    return text.getvalue()


def _title(lab: str) -> str:
    """The lab's title, as its notebook has it: "Lab 01: Magnitude pruning"; outside a
    course its name.
    """
    cells = origin.sources(origin.read_handout(lab), "markdown")
    lines = (line for cell in cells for line in cell.splitlines())
    return next((line[2:].strip() for line in lines if line.startswith("# ")), lab)
