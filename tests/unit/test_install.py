"""Setting up: what an old Python, and a machine without a network, are told."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from course_lib import environment, install

SCRIPT = Path(install.__file__)
OLD = ("2.7", "3.6", "3.9")


def old_python(version: str) -> str | None:
    """One that works: on the path, or of pyenv."""
    there = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in (*map(str, there), shutil.which(f"python{version}")):
        if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return python
    return None


@pytest.mark.parametrize("version", OLD)
def test_an_old_python_is_told_which_ones_will_do(version: str, tmp_path: Path) -> None:
    python = old_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    script = tmp_path / "course_lib" / "install.py"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    done = subprocess.run(
        [python, str(script)], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"The course needs Python 3.11 to 3.14; this is {version}.")
    assert done.stderr.endswith("make PYTHON=python3.12 lab\n") and done.stderr.count("\n") == 1
    (tmp_path / "python3.12").write_text('#!/bin/sh\necho "$@"\n')  # says that it fits
    (tmp_path / "python3.12").chmod(0o755)
    done = subprocess.run(
        [python, str(script), "site"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == f"{script} site" and done.returncode == 0


def test_what_old_pythons_read_has_nothing_that_they_cannot() -> None:
    text = SCRIPT.read_bytes().decode("ascii")  # Python 2 asks for a declaration of more
    tree = ast.parse(text, feature_version=(3, 4))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.JoinedStr | ast.Starred | ast.Nonlocal), node.lineno
        assert getattr(node, "annotation", None) is None and getattr(node, "returns", None) is None
        assert not (isinstance(node, ast.Raise) and node.cause), node.lineno
        assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print")
        assert not (isinstance(node, ast.arguments) and node.kwonlyargs)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("WARNING: Retrying after connection broken by 'NewConnectionError'", "network"),
        ("ERROR: no space left on device", "message above"),
    ],
)
def test_without_a_network_set_up_says_so_at_once(
    said: str,
    cause: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    calls: list[Any] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 1, "", said)

    monkeypatch.setattr(environment.subprocess, "run", run)
    with pytest.raises(SystemExit, match=cause):
        environment._install(tmp_path / "python", ["torch"], "PyTorch")
    assert len(calls) == 1
    assert (said in capfd.readouterr().err) == (cause == "message above")
