"""What an instructor gets: ``grades.csv``, one result (:mod:`.result`) and one feedback
page per submission.

The results are the truth: everything else can be made from them again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from jinja2 import Environment, PackageLoader, StrictUndefined

from course_lib import files
from course_lib.grading.batch import manual_marks, policy
from course_lib.grading.batch.manual_marks import Mark
from course_lib.grading.batch.names import printable
from course_lib.grading.batch.result import PENDING, ClaimResult, Result, read_all
from course_lib.grading.batch.submission import Submission
from course_lib.grading.marking.lab import GradingResult, GradingSpec
from course_lib.grading.marking.marker import earned, total

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
    submission: Submission, graded: Sequence[GradingResult], spec: GradingSpec, version: str
) -> Result:
    """What the tests gave one submission: the best of its versions counts.

    Args:
        graded: of each version. version: of the claims.
    """
    best, points = best_of(graded)
    found = graded[best]
    return Result(
        submission.id,
        submission.file_name,
        tuple(map(ClaimResult.of, found.outcomes)),
        version=version,
        digest=submission.digest,
        lab=spec.lab,
        layer=found.layer,
        problem=submission.problem,
        counted=best,
        versions=points,
        status=submission.status if submission.status and not points[best] else found.status,
        notes=list(found.notes),
    )


def best_of(graded: Sequence[GradingResult]) -> tuple[int, list[float]]:
    """Which of a student's versions counts, and the points of each: the best, the
    likeliest of equals. One on which the grader itself failed comes first, for it is
    graded again.
    """
    # not capped: a bonus can still make up for what a person takes off
    gained = [earned(each.outcomes) for each in graded]
    failed = [each.status == "grader failed" for each in graded]
    best = max(range(len(graded)), key=lambda i: (failed[i], gained[i], -i))
    return best, [total(each.outcomes) for each in graded]


def add_manual_marks(
    result: Result,
    submission: Submission,
    marks: Sequence[Mark] = (),
    waiting: Mapping[str, float] | None = None,
    lateness: Callable[[float], dict[str, Any]] | None = None,
) -> Result:
    """The result with what is known beside the marks that the tests gave, as it is now;
    these stay what they are.

    Args:
        marks: a person's. waiting: the questions that a person marks, with their
            points.
        lateness: what a policy says of it, for the points that it gets.
    """
    counted = submission.version(result.counted)
    made = replace(
        result,
        entries=tuple(manual_marks.merge(result.entries, marks, waiting or {})),
        notebook=counted.notebook,
        choice=_choice(submission, result),
        submitters=submission.submitters,
        # what is odd about one that the tests might have given no points
        remark="" if counted.status and result.status == "graded" else counted.remark,
        time=submission.time,
        late=submission.late,
        start=submission.start,
        release=counted.origin.release,
    )
    decided = any(mark.points is not None for mark in marks)
    return replace(
        made,
        undecided=made.status != "graded" and not made.score and not decided,
        lateness=lateness(made.score) if lateness is not None else None,
    )


def _choice(submission: Submission, result: Result) -> str:
    """Which notebook counts, and what each of several got."""
    if not submission.versions or len(result.versions) <= len(submission.versions):
        return submission.choice
    called = [printable(v.notebook)[:80] for v in (submission, *submission.versions)]
    each = ", ".join(f"{name} {got:g}" for name, got in zip(called, result.versions, strict=True))
    return f"{submission.choice} {called[result.counted]} counts. Points by the tests: {each}."


def save(out: Path, result: Result) -> None:
    """Put a result and its page on disk, each whole or not at all; the result last: it
    says "done".
    """
    notes = [*result.notes, *filter(None, [result.remark])]
    text = pages.get_template("feedback.html").render(lab=result.lab, result=result, notes=notes)
    write_text(out / result.page, text)
    path = out / "results" / f"{result.file_name}.json"
    write_text(path, json.dumps(result.to_json(), indent=1) + "\n")


def build_row(result: Result, questions: Iterable[str], late: bool) -> list[str]:
    """The row of a submission in ``grades.csv``."""
    points, waiting = result.points, result.pending
    status = PENDING if waiting and result.status == "graded" else result.status
    return [
        cell(result.id),
        *(PENDING if q in waiting else f"{points.get(q, (0, 0))[0]:g}" for q in questions),
        "" if result.undecided else f"{result.score:g}",
        f"{result.max_score:g}",
        status,
        *(policy.cells(result.lateness, result.undecided) if late else []),
        result.page,
    ]


def write_grades(out: Path, questions: Iterable[str], late: bool) -> None:
    """Write ``grades.csv`` from the results: one row per submission, with the columns of a
    policy where there is one.
    """
    about = policy.COLUMNS if late else ()
    header = ["id", *questions, "total", "maximum", "status", *about, "feedback"]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(header)
    table.writerows(build_row(result, questions, late) for result in read_all(out))
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
