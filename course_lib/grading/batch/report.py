"""What an instructor gets: ``grades.csv``, one result in Gradescope's form and one
feedback page per submission.

The results are the truth: a submission is marked when its result is there, and
everything else can be made from them again.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from jinja2 import Environment, PackageLoader, StrictUndefined

from course_lib import files
from course_lib.grading import sandbox as layers
from course_lib.grading.batch import byhand
from course_lib.grading.batch.byhand import Mark
from course_lib.grading.batch.collect import Handed
from course_lib.grading.batch.names import shown
from course_lib.grading.marking.marker import Outcome

pages = Environment(
    loader=PackageLoader("course_lib.grading.batch", "pages"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
pages.filters["shown"] = shown
pages.filters["points"] = lambda value: f"{value:g}"
pages.filters["seconds"] = lambda value: f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
pages.filters["percent"] = lambda share: f"{100 * share:.0f} %"


@contextmanager
def only_grader(out: Path) -> Iterator[None]:
    """This process alone writes into the report's folder, which is made, and rid of
    what a killed grader left half written.

    The lock is the system's own: that of a grader that was killed is gone with it.

    Raises:
        RuntimeError: if another process has the folder; the message says which, where
            it is known.
    """
    out.mkdir(parents=True, exist_ok=True)
    holder = out / "running.json"
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RuntimeError(
            f"{_who(holder)} is grading into {out}: wait for it, or give another folder"
        ) from None
    try:
        for folder in (out, out / "results", out / "feedback"):
            folder.mkdir(exist_ok=True)
            for half in folder.glob(f".*{files.HALF}"):
                half.unlink(missing_ok=True)
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        put(
            holder,
            json.dumps({"process": os.getpid(), "machine": platform.node(), "since": since}) + "\n",
        )
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _who(holder: Path) -> str:
    try:
        said = json.loads(holder.read_text(encoding="utf-8"))
        return f"process {said['process']} on {said['machine']} (since {said['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def write(
    out: Path,
    handed: Handed,
    outcomes: Iterable[Outcome],
    status: str,
    notes: Iterable[str],
    extra: dict[str, Any],
) -> dict[str, Any]:
    """One submission's feedback and result, as :func:`result` and :func:`dressed` make
    it, put on disk.
    """
    made = dressed(result(handed, outcomes, status, notes, extra), handed)
    keep(out, handed.file_name, made)
    return made


def result(
    handed: Handed,
    outcomes: Iterable[Outcome],
    status: str,
    notes: Iterable[str],
    extra: dict[str, Any],
) -> dict[str, Any]:
    """What the tests gave, in Gradescope's form.

    Args:
        extra: goes into the result's ``extra_data``; "lab" and "layer" must be in it.
    """
    notes = list(notes)
    about = {
        "id": handed.id,
        "status": status,
        "notes": notes,
        "isolation": layers.Layer(extra["layer"]).sentence,
    }
    return {
        "score": 0.0,
        "output": "\n".join(notes),
        "visibility": "visible",
        "tests": [entry(o) for o in outcomes],
        "extra_data": {**extra, **about},
    }


def dressed(
    result: dict[str, Any],
    handed: Handed,
    marks: Sequence[Mark] = (),
    waiting: Mapping[str, float] | None = None,
    lateness: Callable[[float], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The result with what is known beside the marks that the tests gave, as it is now;
    these stay what they are.

    Args:
        marks: a person's. waiting: the questions that a person marks, with their
            points.
        lateness: what a policy says of it, for the points that it gets.
    """
    counted = handed.version(result["extra_data"].get("counted", 0))
    status = result["extra_data"]["status"]
    about: dict[str, Any] = {
        "notebook": counted.notebook,
        "choice": _choice(handed, result["extra_data"]),
        "submitters": handed.submitters,
        # what is odd about one that the tests might have given no points
        "remark": "" if counted.status and status == "graded" else counted.remark,
        "handed in": handed.time,
        "late": handed.late,
        "start": handed.start,
        "release": counted.origin.release,
    }
    tests = byhand.joined(result["tests"], marks, waiting or {})
    score = sum(t["score"] for t in tests)
    decided = any(mark.points is not None for mark in marks)
    about["undecided"] = status != "graded" and not score and not decided
    about["lateness"] = lateness(score) if lateness is not None else None
    return {
        **result,
        "score": score,
        "tests": tests,
        "extra_data": {**result["extra_data"], **about},
    }


def _choice(handed: Handed, extra: Mapping[str, Any]) -> str:
    """Which notebook counts, and what each of several got."""
    points = extra.get("versions", [])
    if not handed.versions or len(points) <= len(handed.versions):
        return handed.choice
    each = ", ".join(
        f"{shown(handed.version(i).notebook)[:80]} {got:g}" for i, got in enumerate(points)
    )
    counts = shown(handed.version(extra["counted"]).notebook)[:80]
    return f"{handed.choice} {counts} counts. Points by the tests: {each}."


def keep(out: Path, file_name: str, result: dict[str, Any]) -> None:
    """Put a result and its page on disk, each whole or not at all; the result last: it
    says "done".
    """
    put(out / "feedback" / f"{file_name}.html", page(result))
    put(out / "results" / f"{file_name}.json", json.dumps(result, indent=1) + "\n")


def page(result: dict[str, Any]) -> str:
    """What the student reads."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for test in result["tests"]:
        groups.setdefault(test["number"], []).append(test)
    extra = result["extra_data"]
    return pages.get_template("feedback.html").render(
        id=extra["id"],
        lab=extra["lab"],
        choice=extra["choice"],
        notes=[
            *extra.get("notes", result["output"].splitlines()),
            *filter(None, [extra["remark"]]),
        ],
        lateness=(extra.get("lateness") or {}).get("said", ""),
        total=result["score"],
        pending=byhand.pending(result["tests"]),
        most=sum(t["max_score"] for t in result["tests"]),
        questions=[
            {
                "id": id,
                "tests": tests,
                "pending": byhand.pending(tests),
                "earned": sum(t["score"] for t in tests),
                "most": sum(t["max_score"] for t in tests),
            }
            for id, tests in groups.items()
        ],
    )


def entry(o: Outcome) -> dict[str, Any]:
    """One test in Gradescope's form."""
    return {
        "number": o.question,
        "name": f"{o.question} {o.claim}",
        "score": o.earned,
        "max_score": o.points,
        "status": "passed" if o.passed else "failed",
        "output": o.message,
        "visibility": "visible" if o.visible else "after_published",
    }


def read(out: Path, file_name: str) -> dict[str, Any] | None:
    """The result of a submission by its file's name; None where there is none that can
    be read.
    """
    try:
        result = json.loads((out / "results" / f"{file_name}.json").read_text(encoding="utf-8"))
        return (
            result
            if isinstance(result["tests"], list) and isinstance(result["extra_data"], dict)
            else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def results(out: Path) -> Iterator[dict[str, Any]]:
    """The results of the submissions that were there when the report was made last, in
    the order of their ids, one by one.

    Raises:
        FileNotFoundError: if ``out`` holds no report.
    """
    return (result for _, result in named_results(out))


def named_results(out: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same, each with the name of its files.

    Raises:
        FileNotFoundError: if ``out`` holds no report.
    """
    path = out / "batch.json"
    if not path.is_file():
        raise FileNotFoundError(f"{out} holds no report: `course grade … --out {out}` makes one")
    for name in json.loads(path.read_text(encoding="utf-8")).get("files", []):
        result = read(out, name)
        if result is not None:
            yield name, result


class Grades:
    """``grades.csv``: one row a submission, in the order of their ids. Only the rows
    are held, not the results.

    Args:
        more: headings behind the others, and what a result has under them.
    """

    def __init__(
        self,
        out: Path,
        questions: Iterable[str],
        more: tuple[Sequence[str], Callable[[Mapping[str, Any]], list[str]]] = (
            (),
            lambda result: [],
        ),
    ) -> None:
        self.out = out
        self.more = more
        self.questions = list(questions)
        self.rows: dict[str, list[str]] = {}

    def add(self, file_name: str, result: Mapping[str, Any]) -> None:
        """Take the row of a result in, in place of an earlier one of the same
        submission.
        """
        earned = {
            q: sum(t["score"] for t in result["tests"] if t["number"] == q) for q in self.questions
        }
        most = sum(t["max_score"] for t in result["tests"])
        extra = result["extra_data"]
        waiting = byhand.pending(result["tests"])
        points = [byhand.PENDING if q in waiting else f"{earned[q]:g}" for q in self.questions]
        self.rows[file_name] = [
            cell(extra["id"]),
            *points,
            "" if extra.get("undecided") else f"{result['score']:g}",
            f"{most:g}",
            byhand.PENDING if waiting and extra["status"] == "graded" else str(extra["status"]),
            *self.more[1](result),
            f"feedback/{file_name}.html",
        ]

    def write(self, file_names: Iterable[str]) -> None:
        """Write the rows there are, in this order."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(
            ["id", *self.questions, "total", "maximum", "status", *self.more[0], "feedback"]
        )
        writer.writerows(self.rows[name] for name in file_names if name in self.rows)
        put(self.out / "grades.csv", text.getvalue())


def cell(text: str) -> str:
    """``text`` for a table that a spreadsheet may open: a spreadsheet takes a
    leading = + - @ for a formula.
    """
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def put(path: Path, text: str) -> None:
    """Write a file whole or not at all; what UTF-8 cannot hold (half a surrogate pair)
    is written as an escape.
    """
    files.put(path, text.encode("utf-8", "backslashreplace"))
