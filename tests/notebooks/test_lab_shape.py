"""What a lab asks its students to read: short cells, few lines, a fifth of them theirs.

Docstrings say what to write, as the text does, and are no code to read.
"""

import ast
import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from course_lib.authoring.source import BEGIN, END, read
from course_lib.authoring.student import strip

SOURCES = sorted((Path(__file__).parents[2] / "solutions").glob("lab*.py"))
IMPORT = re.compile(r"(from|import) ")


class Shape(NamedTuple):
    """Lines that are not blank. Of all code in the released notebook; of all code without
    docstrings when the answers replace the lines that ask for them; of the answers; of imports;
    and of the longest cell without an answer (without its imports).
    """

    code: int
    completed: int
    answers: int
    imports: int
    longest: int


def lines_of(sources: Iterable[str]) -> list[str]:
    """The lines that a student has to read."""
    lines = [line for source in sources for line in source.split("\n") if line.strip()]
    return [
        line
        for line in lines
        if line.strip() not in (BEGIN, END)
        and not line.startswith("# isort")
        and "yours to use" not in line
    ]


def without_docstrings(source: str) -> str:
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


def shape_of(path: Path) -> Shape:
    lab = read(path, path.parents[1])
    code = {at: cell.source for at, cell in enumerate(lab.cells) if cell.kind == "code"}
    answers = [
        line
        for region in lab.regions
        for line in code[region.cell].split("\n")[region.begin : region.end - 1]
    ]
    given = [code[at] for at in code.keys() - {region.cell for region in lab.regions}]
    completed = lines_of(map(without_docstrings, code.values()))
    return Shape(
        code=len(lines_of(cell.source for cell in strip(lab) if cell.kind == "code")),
        completed=len(completed),
        answers=len(lines_of(answers)),
        imports=sum(map(bool, map(IMPORT.match, completed))),
        longest=max(sum(not IMPORT.match(line) for line in lines_of([cell])) for cell in given),
    )


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_student_reads_little_and_writes_a_fifth(source: Path) -> None:
    shape = shape_of(source)
    assert shape.longest <= 15, "a cell that the student does not write"
    assert shape.code <= 450
    assert shape.answers >= shape.completed / 5
    assert shape.imports <= 12


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_heading_skips_a_level(source: Path) -> None:
    levels = [len(marks) for marks in re.findall(r"^# (#+) ", source.read_text(), re.MULTILINE)]
    assert all(deeper <= level + 1 for level, deeper in pairwise(levels))


def test_the_shape_of_a_source(tmp_path: Path) -> None:
    path = tmp_path / "solutions" / "lab99_small.py"
    path.parent.mkdir()
    path.write_text(
        "# %%\nimport torch\n\nx = 1\ny = 2\n\n"
        "# %% [markdown]\n# ### 99.1 Three\n# **4 minutes · 2 points**\n\n# %%\ndef f():\n"
        '    """Do\n\n    it."""\n'
        f"    {BEGIN}\n    z = 3\n    return z\n    {END}\n"
    )
    assert shape_of(path) == Shape(code=7, completed=6, answers=2, imports=1, longest=2)
