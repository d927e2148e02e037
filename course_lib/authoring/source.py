"""A lab's source, read: its cells, questions and solution regions, each with the line
it stands on.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from course_lib.authoring import claims
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
Wrong = Callable[[int, str], None]  # told a line of the file and what is wrong there
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
    found = sorted((root / "solutions").glob("lab*.py"))
    problems = Problems()
    if not found:
        message = (
            "there is no lab source here: write solutions/labNN_slug.py, or run this in a checkout"
        )
        problems.add("solutions", 1, message)
    numbers: dict[str, Path] = {}
    for path in found:
        file = shown(path, root)
        if not NAME.fullmatch(path.name):
            message = "name a lab's source labNN_slug.py, in small letters, digits and _"
            problems.add(file, 1, message)
        elif (other := numbers.setdefault(path.name[:5], path)) != path:
            message = f"{shown(other, root)} has the same number: give each lab its own"
            problems.add(file, 1, message)
    problems.stop()
    return found


def chosen(paths: list[Path], labs: Iterable[str] | None) -> list[Path]:
    """The sources of ``labs`` (``"lab01"``, ``"1"`` or a whole slug) among ``paths``;
    all of them where it is None.

    Raises:
        AuthoringError: if there is no such lab; says which there are.
    """
    if labs is None:
        return paths
    found: set[Path] = set()
    for wanted in labs:
        name = Path(wanted).name.split(".")[0]
        name = f"lab{int(name):02d}" if name.isdigit() else name
        match = {path for path in paths if name in (path.stem, path.stem[:5])}
        if not match:
            there = ", ".join(path.stem[:5] for path in paths)
            raise error(paths[0].parent.name, 1, f"there is no {wanted!r}: choose among {there}")
        found |= match
    return sorted(found)


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
    cells = place_cells(notebook.cells, text, file)
    wrong = partial(problems.add, file)
    with problems.collecting():
        cells = [_written_out(cell, root, wrong) for cell in cells]
        for id in claims.read(root):
            if id[:2] == path.stem[3:5] and text.count(f"{{{{claim {id}}}}}") != 1:
                wrong(1, f"write {{{{claim {id}}}}} once, below its figure")
    questions, owners = _questions(cells, int(path.stem[3:5]), wrong)
    regions = [
        region
        for at, cell in enumerate(cells)
        if cell.kind == "code"
        for region in _regions(at, cell, owners[at], wrong)
    ]
    for cell in cells:
        if not cell.source.strip():
            wrong(cell.line() - 1, "this cell is empty: fill it, or take it out")
        if cell.kind == "code" and (slip := syntax_error(cell.source)):
            wrong(cell.line(slip.lineno or 1), f"this cell does not parse ({slip.msg}): correct it")
    problems.stop()
    return Lab(path, file, text, tuple(cells), tuple(questions), tuple(regions))


def _written_out(cell: Cell, root: Path, wrong: Wrong) -> Cell:
    """A cell with its claims written out, and nothing else that is bold and compares."""

    def at(line: int, what: str) -> None:
        wrong(cell.line(line), what)

    if cell.kind != "markdown":
        for first, text in _strings(cell.source):
            claims.check_bold(text, partial(_in_text, at, first))
        return cell
    claims.check_bold(cell.source, at)
    new = claims.expand(cell.source, root, at)
    numbers = [line for line, lines in zip(cell.lines, new, strict=True) for _ in lines]
    return replace(cell, source="\n".join(sum(new, [])), lines=tuple(numbers))


def _in_text(at: Wrong, first: int, line: int, what: str) -> None:
    at(first + line - 1, what)


def _strings(source: str) -> Iterator[tuple[int, str]]:
    """The texts in a code cell, each with its line; a computed part is ``{}``."""
    if syntax_error(source):
        return
    pieces: set[int] = set()
    for node in ast.walk(parsed(source)):  # a whole text comes before its pieces
        if isinstance(node, ast.JoinedStr):
            pieces |= {id(part) for part in node.values}
            parts = (str(getattr(part, "value", "")) for part in node.values)
            consts = (isinstance(part, ast.Constant) for part in node.values)
            yield node.lineno, "".join(p if c else "{}" for p, c in zip(parts, consts, strict=True))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in pieces:
                yield node.lineno, node.value


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


def place_cells(notebook_cells: list[Any], text: str, file: str) -> list[Cell]:
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


def _questions(cells: list[Cell], lab: int, wrong: Wrong) -> tuple[list[Question], list[str]]:
    """The questions, and for every cell the one that it belongs to ("" outside of
    any).
    """
    questions: list[Question] = []
    owners: list[str] = []
    current = ""
    for cell in cells:
        fenced = False
        lines = cell.source.split("\n") if cell.kind == "markdown" else []
        for i, line in enumerate(lines, start=1):
            fenced ^= line.lstrip().startswith(("```", "~~~"))
            if fenced:
                continue
            at = cell.line(i)
            if line.strip() in (BEGIN, END):
                wrong(at, "solution markers work in code cells only: this text would be shown")
            if not (heading := HEADING.match(line)) or len(heading[1]) > 3:
                continue
            current = ""
            found = QUESTION.match(heading[2]) if len(heading[1]) == 3 else None
            other_lab = found is not None and int(found[1].split(".")[0]) != lab
            if found is None or (found[2] and other_lab):
                continue  # "2.5x faster" is a heading like any other
            current = found[1]
            question = _question(found, lines[i:], at, wrong)
            before = {q.id: q.line for q in questions}
            if found[2]:
                wrong(at, f"write a question's heading as `### {current} Title`")
            if other_lab:
                wrong(at, f"question {current} in lab {lab:02d}: number it {lab}.k")
            if current in before:
                where = f"already stands on line {before[current]}"
                wrong(at, f"question {current} {where}: give it another number")
            for need in question.needs:
                if need.split(".")[0] == str(lab) and need not in before:
                    wrong(at, f"{current} needs {need}, which is no question before it")
            questions.append(question)
        owners.append(current)
    return questions, owners


def _question(found: re.Match[str], after: list[str], line: int, wrong: Wrong) -> Question:
    said = next((text.strip() for text in after if text.strip()), "")
    form = re.fullmatch(
        r"\*\*\d+(\.\d+)? minutes? · (?P<points>\d+(\.\d+)?) points?"
        r"( · needs (?P<needs>\d+\.\d+((,| and|, and) \d+\.\d+)*))?(?P<optional> · optional)?\*\*",
        said,
    )
    if form is None:
        wrong(line, f"under the heading of question {found[1]} put {COUNTS}")
        return Question(found[1], found[3], 0.0, (), line)
    needs = tuple(re.findall(r"\d+\.\d+", form["needs"] or ""))
    points, optional = float(form["points"]), form["optional"] is not None
    return Question(found[1], found[3], points, needs, line, optional)


def _regions(at: int, cell: Cell, question: str, wrong: Wrong) -> list[Region]:
    regions: list[Region] = []
    begin = 0
    lines = cell.source.split("\n")
    for i, line in enumerate(lines, start=1):
        marker = _MARKER.match(line)
        if not marker:
            continue
        here, begins = cell.line(i), marker[1].upper() == "BEGIN"
        if line.strip() not in (BEGIN, END):
            exact = BEGIN if begins else END
            wrong(here, f"write the marker exactly as `{exact}`, alone on its line")
            if begins or not begin:
                continue
        if begins:
            if begin:
                where = f"the one begun on line {cell.line(begin)}"
                wrong(here, f"a solution inside {where}: end that one first")
            begin = begin or i
        elif not begin:
            wrong(here, f"`{END}` without `{BEGIN}` in this cell: add the line above the solution")
        else:
            inside = [text.strip() for text in lines[begin : i - 1]]
            if not any(text and not text.startswith("#") for text in inside):
                message = "nothing stands between these markers: write the solution, or delete them"
                wrong(cell.line(begin), message)
            elif not question:
                message = "this solution belongs to no question: put it under `### N.k Title`"
                wrong(cell.line(begin), message)
            regions.append(Region(at, begin, i, question))
            begin = 0
    if begin:
        message = f"this solution is not closed in its cell: add `{END}` below it"
        wrong(cell.line(begin), message)
    return regions
