"""What an instructor gets: ``grades.csv``, one result (:mod:`.result`) and one feedback
page per submission.

The results are the truth: everything else can be made from them again.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from course_lib import files
from course_lib.grading.batch import manual_marks
from course_lib.grading.batch.collect import Submission, code, handout, printable
from course_lib.grading.batch.manual_marks import Mark
from course_lib.grading.batch.result import (
    MARKED,
    PENDING,
    ClaimResult,
    Result,
    read_all,
    to_look_at,
)
from course_lib.grading.marking.lab import GradingResult, GradingSpec
from course_lib.grading.marking.marker import earned

pages = Environment(
    loader=PackageLoader("course_lib.grading.batch", "pages"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
pages.filters["printable"] = printable
pages.filters["marked"] = lambda text: Markup(  # what stands in backticks is code
    re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text)))
)
pages.filters["points"] = lambda value: f"{value:g}"
pages.filters["percent"] = lambda share: f"{100 * share:.0f} %"


@contextmanager
def only_grader(out: Path) -> Iterator[None]:
    """This process alone writes into the report's folder, which is made, and rid of
    what a killed grader left half written.

    The lock is the system's own: that of a grader that was killed is gone with it.

    Raises:
        RuntimeError: if another process has the folder.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(out / ".lock").acquire(timeout=0)
    except Timeout:
        raise RuntimeError(
            f"another process is grading into {out}: wait for it, or give another folder"
        ) from None
    with held:
        for folder in (out, out / "results", out / "feedback"):
            folder.mkdir(exist_ok=True)
        for half in out.rglob(f".*{files.HALF}"):
            half.unlink(missing_ok=True)
        yield


def build_result(
    submission: Submission, graded: GradingResult, spec: GradingSpec, version: str
) -> Result:
    """What the tests gave one submission. version: of the claims."""
    return Result(
        submission.id,
        submission.file_name,
        tuple(map(ClaimResult.of, graded.outcomes)),
        version=version,
        digest=submission.digest,
        lab=spec.lab,
        layer=graded.layer,
        problem=submission.problem,
        status=(
            submission.status
            if submission.status and not earned(graded.outcomes)
            else graded.status
        ),
        notes=list(graded.notes),
    )


def add_manual_marks(
    result: Result,
    submission: Submission,
    marks: Sequence[Mark] = (),
    waiting: Mapping[str, float] | None = None,
    contact: str = "",
) -> Result:
    """The result with what is known beside the marks that the tests gave, as it is now;
    these stay what they are.

    Args:
        marks: a person's. waiting: the questions that a person marks, with their points.
        contact: whom a student asks, and until when.
    """
    made = replace(
        result,
        entries=tuple(manual_marks.merge(result.entries, marks, waiting or {})),
        notebook=submission.notebook,
        choice=submission.choice,
        submitters=submission.submitters,
        remark="" if submission.status and result.status == "graded" else submission.remark,
        look=submission.look,
        name=submission.name
        or next((w["name"] for w in submission.submitters if w.get("name")), ""),
        contact=contact,
        time=submission.time,
        start=submission.start,
    )
    decided = any(mark.points is not None for mark in marks)
    return replace(made, undecided=made.status != "graded" and not made.score and not decided)


def save(out: Path, result: Result) -> None:
    """Put a result and its page on disk, each whole or not at all; the result last: it
    says "done".
    """
    title, titles = titles_of(result.lab)
    notes = [*result.notes, *filter(None, [result.remark])]
    said = Counter(
        text
        for some in result.questions.values()
        for text in {e.output for e in some if e.output and (e.by_hand or e.status == "failed")}
    )
    comments = {e.output for e in result.entries if e.by_hand and result.undecided}
    notes += [
        text
        for text, count in said.items()
        if (count > 2 or text in comments) and text not in (*notes, "not written yet")
    ]
    # a name that the remark finds in a text cell is kept, though it is not defined
    in_text = (
        re.findall(r"\w+", result.remark) if "in a markdown or raw cell" in result.remark else []
    )
    told = [
        e.output
        for e in result.entries
        if e.output.startswith(tuple(f"{name} is not defined: " for name in in_text))
    ]
    text = pages.get_template("feedback.html").render(
        lab=result.lab,
        title=title,
        result=result,
        notes=notes,
        today=date.today().isoformat(),
        questions=[
            _question_shown(result, question, titles.get(question, ""), [*notes, *told])
            for question, (_, most) in result.points.items()
            if most or any(e.output or e.by_hand for e in result.questions[question])
        ],
    )
    write_text(out / result.page, text)
    path = out / "results" / f"{result.file_name}.json"
    write_text(path, json.dumps(result.to_json(), indent=1) + "\n")


def titles_of(lab: str) -> tuple[str, dict[str, str]]:
    """A lab's title, and those of its questions, from its handout."""
    text = "\n".join(code(given, ("markdown",))) if (given := handout(lab)) else ""
    title = re.search(r"(?m)^# (Lab .+)$", text)
    return title[1] if title else lab, dict(re.findall(r"(?m)^### (\d+\.\d+) (.+)$", text))


def _question_shown(
    result: Result, question: str, title: str, notes: Sequence[str]
) -> dict[str, Any]:
    """A question as the page shows it: claims that failed for one cause in one row."""
    entries = result.questions[question]
    earned, most = result.points[question]
    pending = question in result.pending
    by_person = any(e.status == MARKED and e.score for e in entries) or bool(result.problem)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        holds, output = entry.status == "passed", entry.output
        if not entry.by_hand and (result.problem or (holds and not entry.max_score)):
            continue
        if by_person and not entry.by_hand:  # a person has decided otherwise
            output = re.sub(r", so (?:the|this) question scores 0", "", output)
        if entry.by_hand:
            name = "not marked yet: a person does" if pending else "by a person"
            points = f"{entry.score:+g}" if entry.score else ""
            points = f"{entry.score:g} / {entry.max_score:g}" if entry.max_score else points
            points = f"pending / {entry.max_score:g}" if entry.status == PENDING else points
        else:
            name = entry.name[len(question) + 1 :]
            points = f"{entry.score:g} / {entry.max_score:g}" if entry.max_score else ""
        row = {"holds": holds, "by_hand": entry.by_hand, "message": output, "points": points}
        row |= {
            "names": [(name, entry.visibility != "visible")],
            "sums": (entry.score, entry.max_score),
        }
        same = [r for r in rows if output and not holds and r["message"] == output]
        if same and not entry.by_hand:
            same[0]["names"] += row["names"]
            score = same[0]["sums"][0] + entry.score
            top = same[0]["sums"][1] + entry.max_score
            same[0] |= {"sums": (score, top), "points": f"{score:g} / {top:g}" if top else ""}
        else:
            rows.append(row)
    for row in rows:
        row["message"] = "" if row["message"] in notes else row["message"]
    state = "person" if pending else "all" if earned >= most else "some" if earned else "none"
    return {
        "id": question,
        "title": title,
        "rows": rows,
        "points": f"{'pending' if pending else f'{earned:g}'} / {most:g}"
        if most
        else f"{earned:+g}",
        "state": state,
        "optional": question in result.optional,
    }


def build_row(result: Result, questions: Iterable[str]) -> list[str]:
    """The row of a submission in ``grades.csv``."""
    points, waiting = result.points, result.pending
    return [
        cell(result.id),
        *(
            PENDING if q in waiting else "" if result.undecided else f"{points.get(q, (0,))[0]:g}"
            for q in questions
        ),
        "" if result.undecided else f"{result.score:g}",
        f"{result.max_score:g}",
        PENDING if waiting and result.status == "graded" else result.status,
        result.page,
        "; ".join(to_look_at(result)),
    ]


def write_grades(out: Path, questions: Sequence[str]) -> None:
    """Write ``grades.csv`` from the results: one row per submission."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(["id", *questions, "total", "maximum", "status", "feedback", "look at"])
    table.writerows(build_row(result, questions) for result in read_all(out))
    write_text(out / "grades.csv", text.getvalue())


def to_text(out: Path, rows: int = 40) -> str:
    """What the terminal shows of ``grades.csv``."""
    table = pd.read_csv(out / "grades.csv", usecols=["id", "total", "maximum", "status"], dtype=str)
    more = f"\n… and {len(table) - rows} more in grades.csv" if len(table) > rows else ""
    return table.head(rows).fillna("").to_string(index=False, max_colwidth=40) + more


def cell(text: str) -> str:
    """``text`` for a table that a spreadsheet may open: a spreadsheet takes a
    leading = + - @ for a formula.
    """
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; what UTF-8 cannot hold (half a surrogate pair)
    is written as an escape.
    """
    files.write_atomic(path, text.encode("utf-8", "backslashreplace"))
