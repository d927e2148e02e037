"""The notebooks in labs/ and solutions/ are what their sources say, and what students
open can be opened.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from course_lib.authoring.build import check
from course_lib.authoring.source import syntax_error

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "solutions").glob("lab*.py"))


@pytest.mark.skipif(not SOURCES, reason="no lab source in solutions/")
def test_notebooks_are_in_sync_with_their_sources():
    problems = check(ROOT)  # what `course build --check` prints
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_student_notebook_opens_without_answers(source):
    notebook = nbformat.read(ROOT / "labs" / f"{source.stem}.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    for number, cell in enumerate(notebook.cells, start=1):
        assert "SOLUTION" not in cell.source, f"cell {number}"
        if cell.cell_type == "code":
            assert syntax_error(cell.source) is None, f"cell {number} does not parse"
            assert not cell.outputs and cell.execution_count is None, f"cell {number} has outputs"
