"""Labs in a repository: badges, and the cell that installs the course where it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import nbformat
import pytest

from course_lib.authoring import online
from course_lib.authoring.errors import AuthoringError
from course_lib.authoring.release import release
from course_lib.install import CPU_INDEX, PAIR

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


@pytest.mark.long
@pytest.mark.parametrize("installed", [False, True])
def test_the_notebook_works_where_the_course_is_missing(
    installed: bool, folder: Path, tmp_path: Path
) -> None:
    """In an environment with all that the course needs, but without the course, far from
    its folder, as on Colab. The repository is a local one, and pip only notes its call.
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
    pip.write_text('#!/bin/sh\necho "$@" > "$HOME/pip"\n')
    pip.chmod(0o755)
    environment = {
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/published/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    if installed:  # then the cell does nothing
        environment["PYTHONPATH"] = str(folder)
    content = tmp_path / "content"
    content.mkdir()
    done = subprocess.run(
        [home / "bin" / "python", "-c", SESSION],
        input=json.dumps(
            [online.INSTALL.format("ada/pruning"), "import course_lib"]
            + ([] if installed else [ANSWER])
        ),
        cwd=content,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (content / "course").exists() is not installed
    assert (tmp_path / "pip").exists() is not installed
    if not installed:
        assert (tmp_path / "pip").read_text() == "install -q -e course[course]\n"
        assert "of 2 visible points" in done.stdout, done.stdout
