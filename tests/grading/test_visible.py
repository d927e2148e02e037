"""What a submission may see of the course must import without the rest: in a sandbox
the rest is not there.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest

import course_lib
from course_lib import labs
from course_lib.grading.sandbox import layers as isolation
from course_lib.sandbox_child import stubs
from course_lib.student_code.cells import parse

PACKAGE = Path(course_lib.__file__).parent


def test_what_a_submission_may_see_imports_without_the_rest(tmp_path: Path) -> None:
    package = tmp_path / "course_lib"
    package.mkdir()
    for name in isolation.VISIBLE:
        (package / name).symlink_to(PACKAGE / name)
    code = """
        import importlib, pkgutil
        from course_lib.sandbox_child import stubs
        stubs.install()
        import course_lib
        for module in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
            importlib.import_module(module.name)
            print(module.name)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert {
        "course_lib.training",
        "course_lib.models.bert",
        "course_lib.student_code.harness",
    } <= set(done.stdout.split())


def test_what_a_submission_may_see_is_there() -> None:
    assert [name for name in isolation.VISIBLE if not (PACKAGE / name).exists()] == []


def test_what_a_sandbox_is_tried_with_is_there_and_hidden() -> None:
    for name in isolation.CANARIES:
        assert (PACKAGE / name).exists()
        assert name.split("/")[0] not in isolation.VISIBLE
    inside = {name.split("/")[0] for name in isolation.CANARIES}
    assert {"grading", "pruning"} <= inside  # the grader itself, and the library's answers
    assert {path.name for path in isolation.course_files()} == {
        "tests",
        "solutions",
        "pyproject.toml",
    }


def test_what_is_given_is_in_the_library_and_may_be_seen() -> None:
    """By the name under which labs import it, and the same thing as where submissions
    find it.
    """
    for name, visible in stubs.GIVEN.items():
        place, _, what = name.rpartition(".")
        assert getattr(importlib.import_module(place), what) is getattr(
            importlib.import_module(visible), what
        )
        assert any(visible.split(".")[1] == Path(seen).stem for seen in isolation.VISIBLE)


def imported(lab: Path) -> set[str]:
    """The modules outside the course that a handout's cells import."""
    cells = [cell.source for cell in nbformat.read(lab, 4).cells if cell.cell_type == "code"]
    found: set[str] = set()
    for statement in parse(cells, []):
        node = statement.node
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] != "course_lib"}


@pytest.fixture(scope="module")
def warm() -> set[str]:
    """The modules that a worker has before a lab asks for any."""
    code = """
        import sys
        from course_lib.sandbox_child import stubs, zygote
        stubs.install()
        zygote.import_all()
        print(*sys.modules)
    """
    run = [sys.executable, "-c", textwrap.dedent(code)]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    "lab", sorted((PACKAGE.parent / "labs").glob("lab*.ipynb")), ids=lambda path: path.stem[:5]
)
def test_what_a_handout_imports_is_there_before_a_submission_comes(
    lab: Path, warm: set[str]
) -> None:
    """Else every submission pays for it anew: lab 10's ``import datasets`` took 1.5
    seconds each.
    """
    asked = labs.load(lab.stem[:5]).imports
    missing = {
        m for m in imported(lab) - warm if not any(a == m or a.startswith(f"{m}.") for a in asked)
    }
    assert not missing, (
        f"add them to the imports of the contract in course_lib/labs/{lab.stem[:5]}.py"
    )
