"""What a submission may see of the course must import without the rest: behind a wall the rest is not there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import course_lib
from course_lib.grading import isolation

PACKAGE = Path(course_lib.__file__).parent


def test_all_that_a_submission_may_see_exists() -> None:
    assert [name for name in isolation.VISIBLE if not (PACKAGE / name).exists()] == []


def test_what_a_submission_may_see_imports_without_the_rest(tmp_path: Path) -> None:
    package = tmp_path / "course_lib"
    package.mkdir()
    for name in isolation.VISIBLE:
        (package / name).symlink_to(PACKAGE / name)
    code = """
        import importlib, pkgutil
        from course_lib.worker import stubs
        stubs.install()
        import course_lib
        for module in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
            importlib.import_module(module.name)
            print(module.name)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert {"course_lib.training", "course_lib.models.bert", "course_lib.worker.harness"} <= set(done.stdout.split())
