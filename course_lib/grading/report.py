"""What an instructor gets: ``grades.csv``, one result in Gradescope's form and one feedback page per submission."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from course_lib.grading import isolation
from course_lib.grading.mark import Outcome, by_question, total
from course_lib.grading.submissions import Handed

_pages = Environment(
    loader=PackageLoader("course_lib.grading", "pages"), autoescape=select_autoescape(default=True), trim_blocks=True
)


def write(
    out: Path, handed: Handed, outcomes: list[Outcome], status: str, notes: list[str], extra: dict[str, Any]
) -> None:
    """One submission's result and feedback, each written whole or not at all; the result last: it says "done"."""
    sentence = isolation.SENTENCES[extra["layer"]]
    groups = by_question(outcomes)
    page = _pages.get_template("feedback.html").render(
        id=handed.id, lab=extra["lab"], groups=groups, total=total(outcomes), most=sum(o.points for o in outcomes),
        notes=notes, status=status, sum_points=lambda group: sum(o.points for o in group), sum_earned=total,
    )  # fmt: skip
    put(out / "feedback" / f"{handed.file_name}.html", page)
    result = {
        "score": total(outcomes),
        "output": "\n".join(notes),
        "visibility": "visible",
        "tests": [
            {
                "number": o.question,
                "name": f"{o.question} {o.claim}",
                "score": o.earned,
                "max_score": o.points,
                "status": "passed" if o.passed else "failed",
                "output": o.message,
                "visibility": "visible" if o.visible else "after_published",
            }
            for o in outcomes
        ],
        "extra_data": {**extra, "id": handed.id, "status": status, "notebook": handed.notebook, "isolation": sentence},
    }
    put(out / "results" / f"{handed.file_name}.json", json.dumps(result, indent=1) + "\n")


def table(out: Path, ids: list[str], files: list[str], questions: list[str]) -> None:
    """``grades.csv`` from the results on disk: one row a submission, in the order of their ids."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", *questions, "total", "maximum", "status"])
    for id, file in zip(ids, files, strict=True):
        try:
            result = json.loads((out / "results" / f"{file}.json").read_text())
        except (OSError, ValueError):
            continue
        earned = {q: sum(t["score"] for t in result["tests"] if t["number"] == q) for q in questions}
        most = sum(t["max_score"] for t in result["tests"])
        row = [f"{earned[q]:g}" for q in questions]
        writer.writerow([_cell(id), *row, f"{result['score']:g}", f"{most:g}", result["extra_data"]["status"]])
    put(out / "grades.csv", text.getvalue())


def _cell(text: str) -> str:
    """A spreadsheet takes a leading = + - @ for a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def put(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, 0o644)
    os.replace(name, path)
