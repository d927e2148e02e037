"""What an instructor gets: ``grades.csv``, one result (:mod:`.result`) and one feedback
page per submission.

The results are the truth: everything else can be made from them again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout
from jinja2 import Environment, PackageLoader, StrictUndefined

from course_lib import files
from course_lib.grading.batch import manual_marks
from course_lib.grading.batch.collect import Submission, printable
from course_lib.grading.batch.manual_marks import Mark
from course_lib.grading.batch.result import PENDING, ClaimResult, Result, read_all
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
pages.filters["points"] = lambda value: f"{value:g}"
pages.filters["seconds"] = lambda value: f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
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
            for half in folder.glob(f".*{files.HALF}"):
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
) -> Result:
    """The result with what is known beside the marks that the tests gave, as it is now;
    these stay what they are.

    Args:
        marks: a person's. waiting: the questions that a person marks, with their points.
    """
    made = replace(
        result,
        entries=tuple(manual_marks.merge(result.entries, marks, waiting or {})),
        notebook=submission.notebook,
        choice=submission.choice,
        submitters=submission.submitters,
        remark="" if submission.status and result.status == "graded" else submission.remark,
        time=submission.time,
        start=submission.start,
    )
    decided = any(mark.points is not None for mark in marks)
    return replace(made, undecided=made.status != "graded" and not made.score and not decided)


def save(out: Path, result: Result) -> None:
    """Put a result and its page on disk, each whole or not at all; the result last: it
    says "done".
    """
    notes = [*result.notes, *filter(None, [result.remark])]
    text = pages.get_template("feedback.html").render(lab=result.lab, result=result, notes=notes)
    write_text(out / result.page, text)
    path = out / "results" / f"{result.file_name}.json"
    write_text(path, json.dumps(result.to_json(), indent=1) + "\n")


def build_row(result: Result, questions: Iterable[str]) -> list[str]:
    """The row of a submission in ``grades.csv``."""
    points, waiting = result.points, result.pending
    return [
        cell(result.id),
        *(PENDING if q in waiting else f"{points.get(q, (0, 0))[0]:g}" for q in questions),
        "" if result.undecided else f"{result.score:g}",
        f"{result.max_score:g}",
        PENDING if waiting and result.status == "graded" else result.status,
        result.page,
    ]


def write_grades(out: Path, questions: Sequence[str]) -> None:
    """Write ``grades.csv`` from the results: one row per submission."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(["id", *questions, "total", "maximum", "status", "feedback"])
    table.writerows(build_row(result, questions) for result in read_all(out))
    write_text(out / "grades.csv", text.getvalue())


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
