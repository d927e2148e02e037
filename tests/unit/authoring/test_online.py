"""Labs in a repository: badges, and the cell that installs the course where it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from course_lib.authoring import online
from course_lib.authoring.errors import AuthoringError
from course_lib.authoring.release import release
from course_lib.cli import app
from course_lib.environment import CPU_INDEX, PAIR

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "pruning"
    release(ROOT, out, ["lab01"], "ada/pruning")
    return out


def test_a_badge_opens_the_lab(folder: Path) -> None:
    (path,) = (folder / "labs").glob("lab01*.ipynb")
    title, install, *_ = nbformat.read(path, 4).cells
    heading, _, badges = title.source.split("\n")[:3]
    assert heading.startswith("# Lab 01")
    assert f"github/ada/pruning/blob/main/labs/{path.name})" in badges
    assert f"gh/ada/pruning/main?urlpath=lab/tree/labs/{path.name})" in badges
    assert "https://github.com/ada/pruning" in install.source
    wanted = (folder / ".binder" / "requirements.txt").read_text()
    assert CPU_INDEX in wanted and all(pin in wanted for pin in PAIR) and ".[course]" in wanted


@pytest.mark.parametrize("repository", ["pruning", "https://github.com/ada/pruning", "a/b; rm"])
def test_what_is_no_repository_is_refused(repository: str, tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match="--repository"):
        release(ROOT, tmp_path / "out", ["lab01"], repository)
    assert not any(tmp_path.iterdir())


@pytest.mark.long
def test_a_release_of_one_lab_can_be_installed(folder: Path, tmp_path: Path) -> None:
    """pip builds it; the tests of other labs are not there."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    tests = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("visible.py")]
    assert tests == ["course_lib/_course/tests/labs/lab01/visible.py"]


SESSION = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for source in json.load(sys.stdin):
    shell.run_cell(source).raise_error()
"""
ANSWER = """
from course_lib.grading import check

def magnitude_mask(weight, sparsity):
    return weight.abs() > weight.abs().median()

check("1.1")
"""


CELL = online.INSTALL.format("ada/pruning")
Session = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Session:
    """Runs cells in a fresh interpreter of an environment with all that the course needs,
    but without the course, far from its folder, as on Colab. The repository is a local one.
    pip notes its call, and installs as pip does in editable mode: a line in a .pth file.
    """
    published = tmp_path / "published" / "ada" / "pruning"
    shutil.copytree(folder, published)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "labs"]):
        subprocess.run([*git, *words], cwd=published, check=True)
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and path.name != "course_lib":
            (packages / path.name).symlink_to(path)
    pip = home / "bin" / "pip"
    pip.write_text(
        '#!/bin/sh\n[ -e "$HOME/broken" ] && exit 1\n'
        f'echo "$@" >> "$HOME/pip"; echo "$PWD/course" > "{packages}/course.pth"\n'
    )
    pip.chmod(0o755)
    environment = {
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/published/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    (tmp_path / "content").mkdir()

    def run(*cells: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [home / "bin" / "python", "-c", SESSION],
            input=json.dumps(cells),
            cwd=tmp_path / "content",
            env=environment | more,
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.long
def test_the_notebook_works_where_the_course_is_missing(session: Session, tmp_path: Path) -> None:
    """The second time it is a runtime that was restarted: the course is installed, and the
    working folder is the one of before. The cell may run twice in one runtime, too.
    """
    for _ in range(2):
        done = session(CELL, CELL, ANSWER)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1.1: 0 of 1.75 visible points" in done.stdout, done.stdout
    assert (tmp_path / "pip").read_text() == "install -q -e course[course]\n"


def test_where_the_course_is_installed_the_cell_does_nothing(
    session: Session, folder: Path, tmp_path: Path
) -> None:
    where = "import os; print(os.getcwd())"
    done = session(CELL, where, PYTHONPATH=str(folder))
    assert done.stdout == f"{tmp_path / 'content'}\n", done.stdout + done.stderr
    assert not [*(tmp_path / "content").iterdir()] and not (tmp_path / "pip").exists()


def test_a_repository_that_cannot_be_cloned_is_one_sentence(
    session: Session, tmp_path: Path
) -> None:
    done = session(online.INSTALL.format("ada/private"))
    assert done.stdout == (
        "The course could not be cloned from https://github.com/ada/private: that repository must"
        " be public, have this name, and have the branch main.\n"
    )
    assert done.returncode and not (tmp_path / "pip").exists()
    said = " ".join(CliRunner().invoke(app, ["release", "--help"]).output.split())
    assert "public" in said and "public" in (ROOT / "docs" / "instructors.md").read_text()


def test_an_installation_that_failed_is_tried_again(session: Session, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    assert session(CELL).stdout.startswith("pip could not install the course:")
    (tmp_path / "broken").unlink()
    assert session(CELL).returncode == 0 and (tmp_path / "pip").exists()
