"""What a lab asks its students to read: short cells, few lines, a fifth of them theirs."""

import re
from pathlib import Path
from typing import NamedTuple

import jupytext
import pytest

SOURCES = sorted((Path(__file__).parents[2] / "solutions").glob("lab*.py"))
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


class Shape(NamedTuple):
    """Lines that are not blank: of all code cells, of the student's answers, of imports,
    and of the longest cell that holds no answer (without its imports).
    """

    code: int
    answers: int
    imports: int
    longest: int


def shape_of(source: Path) -> Shape:
    code = answers = imports = longest = 0
    for cell in jupytext.read(source).cells:
        if cell.cell_type != "code":
            continue
        inside, mine, given, imported = False, 0, 0, 0
        for line in filter(str.strip, cell.source.splitlines()):
            if line.strip() in (BEGIN, END):
                inside = line.strip() == BEGIN
            elif inside:
                mine += 1
            elif line.startswith("# isort") or "yours to use" in line:
                continue  # nothing that has to be read
            elif re.match(r"(from|import) ", line):
                imported += 1
            else:
                given += 1
        code += mine + given + imported
        answers += mine
        imports += imported
        if not mine:
            longest = max(longest, given)
    return Shape(code, answers, imports, longest)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_student_reads_little_and_writes_a_fifth(source: Path) -> None:
    shape = shape_of(source)
    assert shape.longest <= 15, "a cell that the student does not write"
    assert shape.code <= 450
    assert shape.answers >= shape.code / 5
    assert shape.imports <= 12


def test_the_shape_of_a_source(tmp_path: Path) -> None:
    path = tmp_path / "lab99_small.py"
    path.write_text(
        "# %%\nimport torch\n\nx = 1\ny = 2\n\n# %%\ndef f():\n"
        f"    {BEGIN}\n    return 3\n    {END}\n\n# %% [markdown]\n# text\n"
    )
    assert shape_of(path) == Shape(code=5, answers=1, imports=1, longest=2)


def test_the_index_has_the_hours_that_the_labs_announce() -> None:
    index = (SOURCES[0].parent / "index.md").read_text(encoding="utf-8")
    announced = {
        path.stem[3:5]: re.findall(r"points; about (\S+) hours", path.read_text(encoding="utf-8"))
        for path in SOURCES
    }
    listed = dict(re.findall(r"^\| (\d\d) \|.*\| (\S+) \|$", index, re.MULTILINE))
    assert {lab: [hours] for lab, hours in listed.items() if lab in announced} == announced
