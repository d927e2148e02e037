"""The tables of docs/syllabus.md, and the counts of the README, are those of the labs. ``SYLLABUS=write`` in the
environment writes them: hours, points and exercises from the labs' own headings.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from course_lib.authoring.source import Lab, read

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "syllabus.md"
LABS = {path.stem[3:5]: read(path, ROOT) for path in sorted(ROOT.glob("solutions/lab*.py"))}
MINUTES = re.compile(r"^\*\*(\d+) minutes ·(?!.*optional)", re.MULTILINE)
TABLES = {"labs": PAGE, "plans": PAGE, "counts": ROOT / "README.md"}


def hours_of(lab: Lab) -> float:
    """As the lab announces them: "about 4½ hours"."""
    (said,) = re.findall(r"points; about (\d+)(½?) hours", lab.text)
    return int(said[0]) + (0.5 if said[1] else 0)


def parts_of(lab: Lab) -> dict[str, tuple[float, float]]:
    """Title of each part -> hours (120 words per minute, 1.5 times the minutes), points."""
    text = "\n".join(cell.source for cell in lab.cells if cell.kind == "markdown")
    points = {q.id: 0 if q.optional else q.points for q in lab.questions}
    parts = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        if found := re.match(r"Part \w+ · (.*)", part):
            minutes = len(part.split()) / 120 + 1.5 * sum(map(int, MINUTES.findall(part)))
            ids = re.findall(r"^### (\d+\.\d+) ", part, re.MULTILINE)
            parts[found[1]] = (minutes / 60, sum(points[i] for i in ids if i in points))
    return parts


def written(hours: float) -> str:
    """In half hours: "4½"."""
    whole, half = divmod(round(2 * hours), 2)
    return f"{whole or ''}{'½' * half}" or "0"


def labs() -> str:
    """The table of all labs, and their sums."""
    lines = ["| lab | hours | points | bonus points | exercises |", "|---|---|---|---|---|"]
    sums = [0.0, 0, 0, 0]
    for lab in LABS.values():
        bonus = sum(q.points for q in lab.questions if q.optional)
        numbers = (
            hours_of(lab),
            sum(q.points for q in lab.questions) - bonus,
            bonus,
            len(lab.questions),
        )
        title = lab.title.removeprefix("Lab ")
        link = f"[{title}](../labs/{lab.slug}.ipynb)"
        sums = [total + number for total, number in zip(sums, numbers, strict=True)]
        lines.append(f"| {link} | {written(numbers[0])} | {_cells(numbers[1:])} |")
    return "\n".join([*lines, f"| **all** | **{written(sums[0])}** | {_cells(sums[1:])} |"])


def _cells(numbers: tuple[float, ...] | list[float]) -> str:
    return " | ".join(f"{number:g}" for number in numbers)


def counts() -> str:
    """The line of the README."""
    hours = written(sum(map(hours_of, LABS.values())))
    exercises = sum(len(lab.questions) for lab in LABS.values())
    points = sum(q.points for lab in LABS.values() for q in lab.questions if not q.optional)
    return (
        f"**How much**: {len(LABS)} labs, {exercises} exercises, {points:g} points, about {hours} hours"
        " without lectures."
    )


def plans(before: str) -> str:
    """The rows of the shorter plans, with the hours and points of their labs and parts."""
    head, rule, *rows = before.strip().split("\n")
    lines = [head, rule]
    for row in rows:
        plan, content, *_ = [cell.strip() for cell in row.split("|")[1:-1]]
        hours = points = 0.0
        for name, parts in re.findall(r"(\d\d)(?: \(([^)]*)\))?", content):
            lab, known = LABS[name], parts_of(LABS[name])
            if parts:
                chosen = [known[title] for title in parts.split("; ")]
            else:
                core = sum(q.points for q in lab.questions if not q.optional)
                chosen = [(hours_of(lab), core)]
            hours += sum(of for of, _ in chosen)
            points += sum(of for _, of in chosen)
        lines.append(f"| {plan} | {content} | {written(hours)} | {points:g} |")
    return "\n".join(lines)


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_the_labs(name: str) -> None:
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    page = TABLES[name]
    before, rest = page.read_text(encoding="utf-8").split(begin)
    text, after = rest.split(end)
    new = {"labs": labs, "plans": lambda: plans(text), "counts": counts}[name]() + "\n"
    if os.environ.get("SYLLABUS") == "write":
        page.write_text(f"{before}{begin}{new}{end}{after}", encoding="utf-8")
    else:
        assert text == new, "run SYLLABUS=write python -m pytest tests/unit/test_syllabus.py"


def test_the_hours_of_parts_are_within_those_of_the_lab() -> None:
    for lab in LABS.values():
        hours = sum(hours for hours, _ in parts_of(lab).values())
        assert 0.75 * hours_of(lab) < hours < hours_of(lab) + 0.5, lab.name


def test_every_lab_has_four_oral_questions_and_what_a_good_answer_contains() -> None:
    page = PAGE.with_name("oral_questions.md").read_text(encoding="utf-8")
    asked = dict(re.findall(r"^## (\d\d) ·.*\n((?:.|\n)*?)(?=^## |\Z)", page, re.MULTILINE))
    assert asked.keys() == LABS.keys()
    for questions in asked.values():
        assert re.findall(r"^(\d)\. ", questions, re.MULTILINE) == list("1234")
        assert questions.count("*Good: ") == 4
