"""A lab's source, read: its cells, questions and solution regions, each with the line
it stands on.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.authoring.errors import Problems, error, shown

NAME = re.compile(r"lab(\d\d)_([a-z0-9_]+)\.py")
HEADING = re.compile(r"(#{1,6})\s+(.*\S)\s*$")
QUESTION = re.compile(r"(\d+\.\d+)([a-z.:)]?)\s+(\S.*)$")
COUNTS = (
    "a line like `**4 minutes · 2 points · needs 1.1**` (`needs` only where there is something to"
    " need; `optional` at the end where the points are a bonus)"
)
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
# what someone may have meant as one
_MARKER = re.compile(r"\s*#[#\s]*(BEGIN|END)[\s_-]+SOLUTIONS?\b", re.IGNORECASE)
_CELL = re.compile(r"\s*#\s*%%(\s|%|$)")
# jupytext's notes to itself
_PRIVATE = {"lines_to_next_cell", "lines_to_end_of_cell_marker", "cell_marker"}


@dataclass(frozen=True)
class Cell:
    """One cell. ``lines[i]`` is the line of the source file that line i of the cell
    stands on.
    """

    kind: str  # "code", "markdown" or "raw"
    source: str
    lines: tuple[int, ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    def line(self, number: int = 1) -> int:
        """The line of the file for line ``number`` (from 1) of the cell."""
        return self.lines[min(max(number, 1), len(self.lines)) - 1]


@dataclass(frozen=True)
class Question:
    """An exercise as its heading announces it."""

    id: str
    title: str
    minutes: float
    points: float
    needs: tuple[str, ...]
    line: int
    optional: bool = False


@dataclass(frozen=True)
class Region:
    """What stands between two solution markers: lines of its cell, counted from 1,
    markers included.
    """

    cell: int
    begin: int
    end: int
    question: str


@dataclass(frozen=True)
class Lab:
    """A lab's source. ``shown`` is its path as messages name it."""

    path: Path
    shown: str
    text: str
    cells: tuple[Cell, ...]
    questions: tuple[Question, ...]
    regions: tuple[Region, ...]

    @property
    def slug(self) -> str:
        """``lab01_magnitude_pruning``."""
        return self.path.stem

    @property
    def number(self) -> int:
        return int(self.slug[3:5])

    @property
    def name(self) -> str:
        """``lab01``."""
        return self.slug[:5]

    @cached_property
    def title(self) -> str:
        """The first heading of the lab."""
        for cell in self.cells:
            if cell.kind == "markdown" and (
                found := re.search(r"^#\s+(.*\S)", cell.source, re.MULTILINE)
            ):
                return found[1]
        return self.slug

    def text_lines(self) -> Iterator[tuple[int, str]]:
        """The lines of the text, each with its number in the file."""
        for cell in self.cells:
            if cell.kind == "markdown":
                yield from zip(cell.lines, cell.source.split("\n"), strict=True)


def sources(root: Path) -> list[Path]:
    """The lab sources of a checkout, in their order.

    Raises:
        AuthoringError: if there is none, one is named otherwise than ``labNN_slug.py``,
            or two have the same number.
    """
    folder = root / "solutions"
    found = sorted(folder.glob("lab*.py"))
    where = shown(folder, root)
    if not found:
        raise error(
            where,
            1,
            "there is no lab source here: write solutions/labNN_slug.py, or run this in a checkout",
        )
    problems = Problems()
    numbers: dict[str, Path] = {}
    for path in found:
        if not NAME.fullmatch(path.name):
            problems.add(
                shown(path, root),
                1,
                "name a lab's source labNN_slug.py, in small letters, digits and _",
            )
        elif (other := numbers.setdefault(path.name[:5], path)) != path:
            problems.add(
                shown(path, root),
                1,
                f"{shown(other, root)} has the same number: give each lab its own",
            )
    problems.stop()
    return found


def read(path: Path, root: Path) -> Lab:
    """Read a lab's source.

    Raises:
        AuthoringError: naming file and line of everything wrong with its cells, markers
            or questions.
    """
    import jupytext

    file = shown(path, root)
    problems = Problems()
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    try:
        notebook = jupytext.reads(text, fmt={"extension": ".py", "format_name": "percent"})
    except Exception as caught:  # YAML, notebook format: whatever jupytext meets in a broken header
        reason = next(
            (line for line in str(caught).splitlines() if line.strip()), type(caught).__name__
        )
        raise error(
            file,
            1,
            f"jupytext cannot read this ({reason}): begin as `jupytext --to py:percent` does",
        ) from caught
    cells = _cells(notebook.cells, text, file)
    questions, owners = _questions(cells, file, int(path.stem[3:5]), problems)
    regions = [
        region
        for at, cell in enumerate(cells)
        for region in _regions(at, cell, owners[at], file, problems)
    ]
    for cell in cells:
        if not cell.source.strip():
            problems.add(file, cell.line() - 1, "this cell is empty: fill it, or take it out")
        if cell.kind == "code" and (wrong := syntax_error(cell.source)):
            problems.add(
                file,
                cell.line(wrong.lineno or 1),
                f"this cell does not parse ({wrong.msg}): correct it",
            )
    problems.stop()
    return Lab(path, file, text, tuple(cells), tuple(questions), tuple(regions))


def python(source: str) -> str:
    """A cell's code as plain Python: magics become calls, every statement stays on its
    line.
    """
    try:
        ast.parse(source)
        return source
    except SyntaxError:
        from IPython.core.inputtransformer2 import TransformerManager

        return TransformerManager().transform_cell(source)


def syntax_error(source: str) -> SyntaxError | None:
    """What Python (with IPython's magics and top-level await) finds wrong with a
    cell.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(
                python(source), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
        except SyntaxError as caught:
            return caught
        except ValueError as caught:  # a null byte
            return SyntaxError(str(caught))
    return None


def parsed(source: str) -> ast.Module:
    """The syntax tree of a code cell that parses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(python(source))


def _cells(notebook_cells: list[Any], text: str, file: str) -> list[Cell]:
    """jupytext's cells with the lines they came from, which its reader of a single cell
    tells and ``jupytext.reads`` does not.
    """
    from jupytext.cell_reader import DoublePercentScriptCellReader
    from jupytext.header import header_to_metadata_and_cell

    raw = text.splitlines()
    *_, marker = header_to_metadata_and_cell(raw, "#", "", ".py")
    cells = []
    for cell in notebook_cells:
        _, size = DoublePercentScriptCellReader({"extension": ".py"}, "python").read(raw[marker:])
        if not _CELL.match(raw[marker]):
            message = (
                "this stands before the first cell: begin with a line `# %% [markdown]` or `# %%`"
            )
            raise error(file, marker + 1, message)
        lines = cell.source.split("\n")
        start = marker + 2
        while (
            start <= len(raw)
            and lines[0].strip()
            and not raw[start - 1].strip().endswith(lines[0].strip())
        ):
            start += 1  # a markdown cell in quotes may begin one line later
        metadata = {k: v for k, v in cell.metadata.items() if k not in _PRIVATE}
        cells.append(
            Cell(cell.cell_type, cell.source, tuple(range(start, start + len(lines))), metadata)
        )
        marker += size
    return cells


def _questions(
    cells: list[Cell], file: str, lab: int, problems: Problems
) -> tuple[list[Question], list[str]]:
    """The questions, and for every cell the one that it belongs to ("" outside of
    any).
    """
    questions: list[Question] = []
    owners: list[str] = []
    current = ""
    for cell in cells:
        if cell.kind == "markdown":
            fenced = False
            lines = cell.source.split("\n")
            for i, line in enumerate(lines, start=1):
                fenced ^= line.lstrip().startswith(("```", "~~~"))
                if fenced:
                    continue
                if line.strip() in (BEGIN, END):
                    problems.add(
                        file,
                        cell.line(i),
                        "solution markers work in code cells only: this text would be shown",
                    )
                    continue
                if not (heading := HEADING.match(line)) or len(heading[1]) > 3:
                    continue
                current = ""
                if len(heading[1]) == 3 and (found := QUESTION.match(heading[2])):
                    if found[2] and int(found[1].split(".")[0]) != lab:
                        continue  # "2.5x faster" is a heading like any other
                    current = found[1]
                    if found[2]:
                        problems.add(
                            file,
                            cell.line(i),
                            f"write a question's heading as `### {found[1]} Title`",
                        )
                    question = _question(found, lines[i:], file, cell.line(i), problems)
                    if int(found[1].split(".")[0]) != lab:
                        problems.add(
                            file,
                            cell.line(i),
                            f"question {found[1]} in lab {lab:02d}: number it {lab}.k",
                        )
                    if first := next((q for q in questions if q.id == question.id), None):
                        problems.add(
                            file,
                            cell.line(i),
                            f"question {found[1]} already stands on line {first.line}: number it"
                            " anew",
                        )
                    for need in question.needs:
                        if need.split(".")[0] == str(lab) and need not in [q.id for q in questions]:
                            problems.add(
                                file,
                                cell.line(i),
                                f"{found[1]} needs {need}, which is no question before it",
                            )
                    questions.append(question)
        owners.append(current)
    return questions, owners


def _question(
    found: re.Match[str], after: list[str], file: str, line: int, problems: Problems
) -> Question:
    said = next((text.strip() for text in after if text.strip()), "")
    minutes = points = None
    needs: tuple[str, ...] = ()
    optional = False
    unknown = [] if said.startswith("**") and said.endswith("**") else [said]
    for part in [] if unknown else said.strip("*").split("·"):
        part = part.strip()
        if m := re.fullmatch(r"(\d+(?:\.\d+)?) minutes?", part):
            minutes = float(m[1])
        elif m := re.fullmatch(r"(\d+(?:\.\d+)?) points?", part):
            points = float(m[1])
        elif re.fullmatch(r"needs \d+\.\d+((,| and|, and) \d+\.\d+)*", part):
            needs = tuple(re.findall(r"\d+\.\d+", part))
        elif part == "optional":
            optional = True
        else:
            unknown.append(part)
    if unknown or minutes is None or points is None:
        problems.add(file, line, f"under the heading of question {found[1]} put {COUNTS}")
    return Question(found[1], found[3], minutes or 0.0, points or 0.0, needs, line, optional)


def _regions(at: int, cell: Cell, question: str, file: str, problems: Problems) -> list[Region]:
    if cell.kind != "code":
        return []
    regions: list[Region] = []
    begin = 0
    lines = cell.source.split("\n")
    for i, line in enumerate(lines, start=1):
        marker = _MARKER.match(line)
        if not marker:
            continue
        if line.strip() not in (BEGIN, END):
            exact = BEGIN if marker[1].upper() == "BEGIN" else END
            problems.add(
                file, cell.line(i), f"write the marker exactly as `{exact}`, alone on its line"
            )
            if marker[1].upper() == "BEGIN" or not begin:
                continue
        if marker[1].upper() == "BEGIN":
            if begin:
                where = cell.line(begin)
                problems.add(
                    file,
                    cell.line(i),
                    f"a solution inside the one begun on line {where}: end that one first",
                )
            begin = begin or i
        elif not begin:
            problems.add(
                file,
                cell.line(i),
                f"`{END}` without `{BEGIN}` in this cell: add the line above the solution",
            )
        else:
            if not any(
                text.strip() and not text.lstrip().startswith("#") for text in lines[begin : i - 1]
            ):
                problems.add(
                    file,
                    cell.line(begin),
                    "nothing stands between these markers: write the solution, or delete them",
                )
            elif not question:
                hint = "put it under a heading `### N.k Title`"
                problems.add(
                    file, cell.line(begin), f"this solution belongs to no question: {hint}"
                )
            regions.append(Region(at, begin, i, question))
            begin = 0
    if begin:
        problems.add(
            file, cell.line(begin), f"this solution is not closed in its cell: add `{END}` below it"
        )
    return regions
