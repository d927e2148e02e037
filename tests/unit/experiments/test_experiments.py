"""Longer runs: what is done is not done again, and what is written is found."""

from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from course_lib import cli, experiments
from course_lib.experiments.once import once


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty course, with one result that is quickly made."""
    (tmp_path / "labs").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "pyproject.toml").write_text('name = "pruning-course"')
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def quick(executor: Executor, folder: Path) -> dict[str, Any]:
        """Something quick."""
        return {"folder": folder.name, "value": executor.submit(abs, -3).result()}

    monkeypatch.setattr(experiments, "registered", lambda: {"lab99_quick": quick})
    return tmp_path


def test_remake_writes_what_read_finds(course: Path) -> None:
    with pytest.raises(FileNotFoundError, match="course remake lab99_quick"):
        experiments.read("lab99_quick")
    with ThreadPoolExecutor(1) as pool:
        written = experiments.remake("lab99_quick", pool)
        with pytest.raises(ValueError, match="choose one of lab99_quick"):
            experiments.remake("lab98_unknown", pool)
    assert written == course / "data" / "results" / "lab99_quick.json"
    assert experiments.read("lab99_quick") == {"folder": "lab99_quick", "value": 3}
    assert [path.name for path in written.parent.iterdir()] == ["lab99_quick.json"], (
        "nothing half-written stays"
    )


def test_the_command(course: Path) -> None:
    listing = CliRunner().invoke(cli.app, ["remake"])
    assert "lab99_quick: Something quick." in listing.output
    done = CliRunner().invoke(cli.app, ["remake", "lab99_quick", "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert experiments.read("lab99_quick")["value"] == 3


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    calls = []

    def part(seed: int) -> dict[str, int]:
        calls.append(seed)
        return {"seed": seed}

    path = tmp_path / "new" / "part-3.json"
    assert once(path, part, 3) == once(path, part, 3) == {"seed": 3}
    assert calls == [3]


def test_a_lab_says_what_it_makes() -> None:
    """A file for each result, and its first words are what the command lists."""
    there = {path.stem for path in experiments.path("x").parent.glob("lab*.json")}
    assert set(experiments.registered()) == there
    assert all(remake.__doc__ for remake in experiments.registered().values())
