"""Student notebooks in the real nbgrader: metadata it accepts, full marks for right
answers, none for a wrong one.

Lab 00 is executed trimmed: its imports, answers and checks, without the text and the
experiments, which nbgrader would run too and which take most of its time.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from course_lib.authoring import claims

pytest.importorskip(
    "nbgrader", reason="nbgrader is not installed: pip install -e .[test] brings it"
)

from nbgrader.api import Gradebook  # noqa: E402
from nbgrader.nbgraderformat import read as read_checked  # noqa: E402

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
LABS = sorted((ROOT / "labs").glob("lab[0-9][0-9]_*.ipynb"))
LAB = next(path for path in LABS if path.stem.startswith("lab00"))
WRONG = "0-2-transformer_macs"  # the cell that gets a wrong answer


def visible(lab: str) -> dict[str, float]:
    """The points of a lab's visible tests by question, "0-1" for 0.1."""
    points: dict[str, float] = {}
    for claim in claims.read_claims(claims.claims_of(lab, ROOT), ROOT):
        name = claim.question.replace(".", "-")
        points[name] = points.get(name, 0) + claim.points * claim.visible
    return points


def marked(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem[:5])
def test_nbgrader_accepts_the_metadata(path: Path) -> None:
    # its own validation: schema, ids that are unique
    notebook = read_checked(str(path), as_version=4)
    tests = {c.metadata.nbgrader.grade_id: c for c in marked(notebook) if c.metadata.nbgrader.grade}
    assert {id: c.metadata.nbgrader.points for id, c in tests.items()} == {
        f"{question}-check": points for question, points in visible(path.stem[:5]).items()
    }
    for cell in notebook.cells:
        if cell.cell_type == "code" and ("write this" in cell.source or " = ..." in cell.source):
            mine = cell.metadata.nbgrader
            assert (mine.solution, mine.grade, mine.locked) == (True, False, False)
        # these JupyterLab shows
        assert not {"editable", "deletable", "tags", "jupyter"} & cell.metadata.keys()


def trimmed() -> Any:
    """Lab 00 without text and experiments."""
    notebook = nbformat.read(LAB, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first = next(i for i, cell in enumerate(code) if "nbgrader" in cell.metadata)
    start = [
        cell for cell in code[:first] if "import" in cell.source or "def require" in cell.source
    ]
    notebook.cells = start + [
        cell for cell in code[first:] if "nbgrader" in cell.metadata or "CAMERA = [" in cell.source
    ]
    return notebook


def answered(notebook: Any, wrong: str = "") -> Any:
    """A student's notebook with the solutions pasted in; in the cell ``wrong`` a wrong
    one.
    """
    solutions = {
        cell.id: cell.source
        for cell in nbformat.read(ROOT / "solutions" / LAB.name, as_version=4).cells
    }
    mine = copy.deepcopy(notebook)
    for cell in marked(mine):
        if cell.metadata.nbgrader.solution:
            lines = solutions[cell.id].splitlines()
            cell.source = "\n".join(
                line for line in lines if "### BEGIN" not in line and "### END" not in line
            )
        if cell.metadata.nbgrader.grade_id == wrong:
            cell.source += "\n\n\ndef transformer_macs(B, L, E, heads=1):\n    return {}\n"
    return mine


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The course is found, nobody's settings are, and nbgrader finds the `alembic` that
    was installed with it.
    """
    monkeypatch.setenv("COURSE_ROOT", str(ROOT))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def nbgrader(folder: Path, *arguments: str) -> str:
    """Run a command of nbgrader's in ``folder``; what it printed."""
    # on a busy machine
    patience = ["--ExecutePreprocessor.timeout=300", "--ExecutePreprocessor.iopub_timeout=60"]
    command = [sys.executable, "-m", "nbgrader", *arguments, *patience]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_validate_tells_right_from_wrong(tmp_path: Path) -> None:
    notebook = trimmed()
    for name, wrong in (("right", ""), ("wrong", WRONG)):
        nbformat.write(answered(notebook, wrong), tmp_path / f"{name}.ipynb")
    assert "Success! Your notebook passes all the tests." in nbgrader(
        tmp_path, "validate", "right.ipynb"
    )
    said = nbgrader(tmp_path, "validate", "wrong.ipynb")
    assert "VALIDATION FAILED ON 1 CELL" in said
    assert 'check("0.2")' in said and "AssertionError" in said


def test_autograde_gives_full_marks_and_takes_those_of_a_wrong_answer(tmp_path: Path) -> None:
    notebook = trimmed()
    source = tmp_path / "source" / "lab00"
    source.mkdir(parents=True)
    nbformat.write(notebook, source / LAB.name)
    nbgrader(tmp_path, "generate_assignment", "lab00", "--create", "--ClearSolutions.enabled=False")
    released = nbformat.read(tmp_path / "release" / "lab00" / LAB.name, as_version=4)
    # hints stay
    assert [cell.source for cell in released.cells] == [cell.source for cell in notebook.cells]
    for name, wrong in (("right", ""), ("wrong", WRONG)):
        folder = tmp_path / "submitted" / name / "lab00"
        folder.mkdir(parents=True)
        nbformat.write(answered(released, wrong), folder / LAB.name)
    nbgrader(tmp_path, "autograde", "lab00")
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        marks = {
            name: {
                g.name: g.auto_score
                for g in book.find_submission_notebook(LAB.stem, "lab00", name).grades
            }
            for name in ("right", "wrong")
        }
    full = {f"{question}-check": points for question, points in visible("lab00").items()}
    assert marks["right"] == full
    assert marks["wrong"] == full | {"0-2-check": 0}
