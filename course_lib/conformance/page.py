"""The table of families and operations in docs/own_models.md, computed by trying."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from course_lib.conformance.models import SMALL
from course_lib.conformance.operations import OPERATIONS, try_operation

PAGE = Path("docs") / "own_models.md"
BEGIN, END = "<!-- families: begin -->", "<!-- families: end -->"
WORKS = "works"
Results = dict[str, dict[str, str]]


def reason(said: str) -> str:
    """The part of a refusal that says why, without the model's own names."""
    return said.rsplit(": ", 1)[-1]


def results(families: Iterable[str] = ()) -> Results:
    """Family -> operation -> "works", or why it is refused.

    Args:
        families: names of the table; all of them by default.

    Raises:
        ValueError: if a family has no small model here. RuntimeError: if operations
            fail or give wrong results, after all were tried: a line for each.
    """
    chosen = list(families) or list(SMALL)
    if unknown := [name for name in chosen if name not in SMALL]:
        raise ValueError(
            f"there is no small model of {unknown[0]!r}: add one to"
            f" course_lib/conformance/models.py; there are {', '.join(SMALL)}"
        )
    found: Results = {}
    failed = []
    for family in chosen:
        found[family] = {}
        for name in OPERATIONS:
            try:
                found[family][name] = reason(try_operation(family, name))
            except Exception as error:  # whatever a wrong row leads to
                said = (str(error).splitlines() or [""])[0]
                failed.append(f"{family}, {name}: {type(error).__name__}: {said}")
    if failed:
        raise RuntimeError(
            "\n".join(failed) + "\nlook at the rows in course_lib/models/families.py: the names of"
            " parts and layers, the order of q, k and v, by_head, after"
        )
    return found


def table(found: Results) -> str:
    """The results as a Markdown table, with the reasons as numbered notes."""
    reasons = sorted({said for row in found.values() for said in row.values()} - {WORKS})
    lines = [
        f"| family | {' | '.join(OPERATIONS)} |",
        f"|---|{':-:|' * len(OPERATIONS)}",
    ]
    for family, row in found.items():
        cells = ("✓" if row[o] == WORKS else f"({reasons.index(row[o]) + 1})" for o in OPERATIONS)
        lines.append(f"| {family} | {' | '.join(cells)} |")
    notes = [f"{i}. Refused: {said}." for i, said in enumerate(reasons, 1)]
    return "\n".join([*lines, "", *notes])


def read(root: Path) -> Results:
    """The results that the page says."""
    part = _split((root / PAGE).read_text(encoding="utf-8"))[1]
    notes = dict(re.findall(r"^(\d+)\. Refused: (.*)\.$", part, re.MULTILINE))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if line.startswith("| ")
    ]
    return {
        family: {
            name: WORKS if cell == "✓" else notes[cell.strip("()")]
            for name, cell in zip(rows[0][1:], cells, strict=True)
        }
        for family, *cells in rows[1:]
    }


def write(root: Path, found: Results) -> Path:
    """Put the table into the page; returns its path."""
    path = root / PAGE
    before, _, after = _split(path.read_text(encoding="utf-8"))
    path.write_text(f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}", encoding="utf-8")
    return path


def _split(text: str) -> tuple[str, str, str]:
    before, _, rest = text.partition(BEGIN)
    part, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE} has no place for the table, between {BEGIN} and {END}")
    return before, part, after
