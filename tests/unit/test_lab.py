"""`course lab NAME`: a lab of the course folder, or a folder of one's own for the labs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from course_lib import cli


class Lab:
    """Runs ``course lab ...``: the last line said, and what JupyterLab was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.called: list[str] = []
        self._patch, self._said = monkeypatch, capsys
        monkeypatch.delenv("COURSE_ROOT", raising=False)
        monkeypatch.setattr(subprocess, "call", lambda command, cwd: self.called.extend(command))

    def __call__(self, *words: str) -> str:
        self._patch.setattr("sys.argv", ["course", "lab", *words])
        with pytest.raises(SystemExit):
            cli.main()
        said = self._said.readouterr()
        return said.out + said.err


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    return Lab(monkeypatch, capsys)


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, which is the working folder."""
    root = tmp_path / "course"
    (root / "labs").mkdir(parents=True)
    for name in ("lab00_counting", "lab01_magnitude"):
        (root / "labs" / f"{name}.ipynb").write_text("{}")
    (root / "pyproject.toml").write_text('[project]\nname = "pruning-course"\n')
    monkeypatch.chdir(root)
    return root


def paths(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize(
    ("name", "opened"),
    [
        ("lab01", "labs/lab01_magnitude.ipynb"),
        ("labs/lab01_magnitude.ipynb", "labs/lab01_magnitude.ipynb"),
        ("labs", "labs"),
        (".", "labs"),
    ],
)
def test_in_a_checkout_the_lab_opens_and_nothing_is_written(
    name: str, opened: str, course: Path, lab: Lab
) -> None:
    before = paths(course)
    assert lab(name) == ""
    assert f"--LabApp.default_url=/lab/tree/{opened}" in lab.called
    assert f"--notebook-dir={course}" in lab.called and paths(course) == before


@pytest.mark.parametrize(
    ("name", "said"), [("lab07", "which has lab00, lab01"), ("mine", "`course lab lab01`")]
)
def test_in_a_checkout_another_name_is_refused(
    name: str, said: str, course: Path, lab: Lab
) -> None:
    before = paths(course)
    answer = lab(name)
    assert answer.startswith(f"course: {name} ") and said in answer
    assert not lab.called and paths(course) == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lab01", "lab01 is a lab, and there is no course folder here"),
        ("file", "file is a file"),
        ("file/inside", "(not a directory)"),
        ("/proc/nolabs", "the labs cannot be written into /proc/nolabs ("),
    ],
)
def test_what_cannot_hold_the_labs_is_refused_in_a_sentence(
    name: str, said: str, tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    answer = lab(name)
    assert answer.startswith("course: ") and said in answer and "Errno" not in answer
    assert answer.count("\n") == 1 and not lab.called
    assert paths(tmp_path) == [tmp_path / "file"]


def test_a_folder_without_permission_is_named(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, **_: object) -> None:  # root may write everywhere
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    folder = tmp_path / "mine"
    assert lab(str(folder)) == (
        f"course: the labs cannot be written into {folder} (permission denied): choose a folder in"
        " which you may write, such as ~/pruning\n"
    )


def test_the_labs_of_a_folder_of_ones_own_are_completed(tmp_path: Path, lab: Lab) -> None:
    folder = tmp_path / "mine"
    assert "files written into" in lab(str(folder))
    (gone,) = folder.glob("labs/lab05*.ipynb")
    gone.unlink()
    assert lab(str(folder)).startswith("1 files written into") and gone.is_file()
    assert f"--notebook-dir={folder}" in lab.called
