"""The marks in the table that a platform exports and takes back: Canvas's gradebook, Moodle's
grading worksheet in any language, or any table with a column that says whose a row is.

The table stays what it is but for one column. A row is a submission's if one of its cells is
the student's number at the platform, their email address or student number, or the
submission's id. Whom nothing or more than one thing fits is said, and gets nothing.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

from course_lib.grading.batch.collect import printable
from course_lib.grading.batch.manual_marks import cells_of
from course_lib.grading.batch.report import write_text
from course_lib.grading.batch.result import Result, read_all, read_batch


def fill(
    report: Path, table: Path, column: str = "", pending_as_zero: bool = False
) -> tuple[Path, list[str]]:
    """Write ``gradebook.csv`` into a report's folder: the table with the points in a column.

    Args:
        column: its heading; by default the one that names this lab, else "Grade".
        pending_as_zero: what a person has still to mark counts as 0, instead of holding the
            total back.

    Returns:
        The file, and sentences on who got no points in it.

    Raises:
        ValueError: if the table or the column cannot be used. Nothing is written then.
    """
    rows = [row for _, row in cells_of(table)]
    header, body = (rows[0], rows[1:]) if rows else ([], [])
    at = _column(header, column, read_batch(report)["lab"])
    identities = [_known(row, at) for row in body]
    fits: list[tuple[Result, list[int]]] = []
    for result in read_all(report):
        result = result.with_pending_as_zero() if pending_as_zero else result
        for who in [*result.submitters, {}][: max(1, len(result.submitters))]:
            asked = [(c, who[c]) for c in ("canvas id", "moodle id", "email", "sid") if who.get(c)]
            wanted = {_folded(value) for _, value in asked} or {_folded(result.id)}
            fits.append((result, [i for i, known in enumerate(identities) if known & wanted]))
    times = Counter(i for _, found in fits for i in found)
    said = []
    for result, found in fits:
        why = ""
        if len(found) != 1 or times[found[0]] > 1:
            why = f"{len(found)} rows fit it" if len(found) != 1 else "another fits its row, too"
        elif result.undecided or result.pending:
            why = "it has no grade until a person has decided"
        if why:
            said.append(f"{printable(result.id)} ({result.score:g} points) is not in it: {why}")
        else:
            row = body[found[0]]
            row += [""] * (at + 1 - len(row))
            row[at] = f"{result.score:g}"
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([header, *body])
    write_text(report / "gradebook.csv", text.getvalue())
    return report / "gradebook.csv", said


def _column(header: Sequence[str], asked: str, lab: str) -> int:
    number = re.compile(rf"(?i)\blab[-_ ]*0*{int(lab[3:])}(?!\d)")
    plain = [heading.strip() for heading in header]
    for fits in (
        lambda h: asked and h.casefold().startswith(asked.strip().casefold()),
        lambda h: not asked and number.search(h),
        lambda h: not asked and h.casefold() == "grade",
    ):
        if len(found := [i for i, heading in enumerate(plain) if fits(heading)]) == 1:
            return found[0]
    raise ValueError(f"which column takes the points? Name it with --column: {', '.join(plain)}")


def _known(row: Sequence[str], but: int) -> set[str]:
    """What a row says of whose it is: its cells, and of "Participant 1234567" the number."""
    cells = {_folded(value) for i, value in enumerate(row) if i != but and value.strip()}
    first = re.fullmatch(r"\D+(\d+)", row[0]) if row else None
    return cells | ({first[1]} if first else set())


def _folded(text: str) -> str:
    return normalize("NFC", normalize("NFC", text.strip()).casefold())
