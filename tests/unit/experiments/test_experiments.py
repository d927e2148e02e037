"""Longer runs: what is done is not done again, and what is written is found."""

import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from course_lib import cli, experiments, parallel, paths
from course_lib.experiments import Result
from course_lib.experiments.once import once, spent


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty course, with one result that is quickly made."""
    (tmp_path / "labs").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "pyproject.toml").write_text('name = "pruning-course"')
    monkeypatch.setenv("COURSE_ROOT", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def quick(executor: Executor, folder: Path) -> Result:
        """Something quick."""
        value = executor.submit(abs, -3).result()
        table = {"folder": [folder.name, 'a, "b"'], "value": [value, 2], "share": [1 / 3, 2e-17]}
        return Result({"all": pd.DataFrame(table)}, {"rounds": 3})

    kept = experiments.by_seed("In parts.", {"rounds": 3}, 2, busy, data="digits")

    monkeypatch.setattr(
        experiments, "registered", lambda: {"lab99_quick": quick, "lab99_kept": kept}
    )
    return tmp_path


def busy(seed: int, name: str, settings: dict[str, int]) -> dict[str, list[Any]]:
    """Some work of the processor."""
    total = 0
    for i in range(settings["rounds"] * 1_000_000):
        total += i % 7
    return {"runs": [{"name": name, "total": total}]}


def test_remake_writes_what_read_finds(course: Path) -> None:
    for name in ("lab99_quick", "lab99_quick/all"):
        with pytest.raises(FileNotFoundError, match="course remake lab99_quick"):
            experiments.read(name)
    with ThreadPoolExecutor(1) as pool:
        written = experiments.remake("lab99_quick", pool)
        with pytest.raises(ValueError, match="choose one of lab99_quick"):
            experiments.remake("lab98_unknown", pool)
    assert written == course / "data" / "results" / "lab99_quick"
    numbers = {"folder": ["lab99_quick", 'a, "b"'], "value": [3, 2], "share": [1 / 3, 2e-17]}
    assert experiments.read("lab99_quick/all").to_dict("list") == numbers, "bit for bit"
    assert experiments.settings("lab99_quick/all") == {"rounds": 3}
    assert experiments.took("lab99_quick") is None
    assert {path.name for path in written.iterdir()} == {"all.csv", "about.json"}, (
        "nothing half-written stays"
    )


@pytest.mark.long
def test_the_command(course: Path) -> None:
    listing = CliRunner().invoke(cli.app, ["remake"])
    assert "lab99_quick: Something quick." in listing.output
    done = CliRunner().invoke(cli.app, ["remake", "lab99_quick", "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert experiments.read("lab99_quick/all")["value"].tolist() == [3, 2]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    calls = []

    def part(seed: int) -> dict[str, int]:
        calls.append(seed)
        return {"seed": seed}

    new = tmp_path / "new"
    assert once(new, part, 3) == once(new, part, 3) == {"seed": 3}
    assert once(new, part, 4) == {"seed": 4} and calls == [3, 4]


def test_a_result_says_what_it_took(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(2) as threads, parallel.processes(2) as pool:
        monkeypatch.setattr(pool, "submit", threads.submit)  # processes take seconds to start
        experiments.remake("lab99_kept", pool)
        experiments.remake("lab99_quick", pool)
    runs, took = experiments.read("lab99_kept/runs"), experiments.took("lab99_kept")
    assert runs["seed"].tolist() == [0, 1] and experiments.settings("lab99_kept") == {"rounds": 3}
    assert took is not None and took.keys() == {"cpu_seconds", "cores"} and took["cores"] == 2
    assert experiments.took("lab99_quick") is None, "nothing was kept by once: nobody knows"


@pytest.mark.long
def test_seconds_are_those_of_the_processor_and_are_kept_with_the_part(tmp_path: Path) -> None:
    def rest_and_work(_: int) -> int:
        time.sleep(0.3)
        return sum(i % 7 for i in range(1_000_000))

    assert spent(tmp_path) is None, "nothing is there"
    for part in (0, 1, 0, 1):
        once(tmp_path / "deep", rest_and_work, part)
    took = spent(tmp_path)
    assert took is not None and 0.01 < took < 10
    once(tmp_path / "asleep", time.sleep, 0.5)
    slept = spent(tmp_path / "asleep")
    assert slept is not None and slept < 0.4, "the clock on the wall is not"
    assert spent(tmp_path) == pytest.approx(took + slept)


def test_a_lab_says_what_it_makes() -> None:
    """A file for each result, and its first words are what the command lists."""
    there = {path.name for path in (paths.data_dir() / "results").glob("lab*")}
    assert set(experiments.registered()) == there
    assert all(remake.__doc__ for remake in experiments.registered().values())
