"""The autograder for Gradescope, run as Gradescope does; and the example for GitHub,
run as its runners do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer
import yaml

from course_lib import cli, demo, labs
from course_lib.authoring import release
from course_lib.grading import sandbox
from course_lib.grading.batch import gradescope
from course_lib.grading.claims import question as claims

ROOT = Path(__file__).parents[2]
SOURCE = next((ROOT / "solutions").glob("lab01_*.py"), None)
pytestmark = [
    pytest.mark.skipif(SOURCE is None, reason="no solutions here"),
    pytest.mark.usefixtures("warm"),
]


@pytest.fixture(scope="module", autouse=True)
def contents() -> Iterator[None]:
    """What students get, collected once: it takes seconds."""
    found = release.contents(ROOT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "contents", lambda root: dict(found))
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gradescope.write(ROOT, "lab01", tmp_path_factory.mktemp("zip") / "lab01.zip", seed=5)


@pytest.fixture
def autograder(archive: Path, tmp_path: Path) -> Path:
    """Gradescope's folder, as its container has it when a submission arrives."""
    for folder in ("source", "submission", "results"):
        (tmp_path / folder).mkdir()
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(archive), str(tmp_path / "source")], check=True
    )
    shutil.copy(tmp_path / "source" / "run_autograder", tmp_path / "run_autograder")
    (tmp_path / "run_autograder").chmod(0o755)
    return tmp_path


def hand_in(autograder: Path, name: str) -> None:
    assert SOURCE is not None
    cells = [nbformat.v4.new_code_cell(c) for c in demo.samples(SOURCE)[name]]
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells), autograder / "submission" / "lab01 (1).ipynb"
    )


def run(autograder: Path, script: str = "run_autograder") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AUTOGRADER": str(autograder), "COURSE_PYTHON": sys.executable}
    return subprocess.run(
        [autograder / script], cwd=autograder, env=env, capture_output=True, text=True, timeout=300
    )


def check_form(results: dict[str, Any]) -> None:
    """What https://gradescope-autograders.readthedocs.io/en/latest/specs/ asks for."""
    visible = {"hidden", "after_due_date", "after_published", "visible"}
    assert isinstance(results["score"], int | float) and isinstance(results["output"], str)
    assert results["visibility"] in visible and results["stdout_visibility"] == "hidden"
    expected = claims.tests_in(claims.texts_in(ROOT / "tests" / "labs" / "lab01"), "lab01")
    assert [t["number"] for t in results["tests"]] == [t.question for t in expected]
    for test, of in zip(results["tests"], expected, strict=True):
        assert 0 <= test["score"] <= test["max_score"] == of.points
        assert test["status"] in ("passed", "failed") and of.claim in test["name"]
        assert test["visibility"] == ("visible" if of.visible else "after_published")
    optional = {q for q, asked in labs.load("lab01").questions.items() if asked.optional}
    core = sum(of.points for of in expected if of.question not in optional)
    assert results["score"] == min(core, sum(t["score"] for t in results["tests"]))


def test_the_zip_holds_what_is_needed_and_no_solution(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        modes = {i.filename: i.external_attr >> 16 for i in opened.infolist()}
        text = {
            n: opened.read(n).decode("utf-8", "replace")
            for n in names
            if n.endswith((".py", ".sh", ".ipynb", ".toml"))
        }
    assert {
        "setup.sh",
        "run_autograder",
        "pyproject.toml",
        "README.md",
        "tests/labs/lab01/hidden.py",
    } <= set(names)
    assert modes["setup.sh"] & 0o111 and modes["run_autograder"] & 0o111
    assert {n for n in names if n.startswith(("labs/", "tests/"))} == {
        f"labs/{SOURCE.stem}.ipynb", "tests/labs/lab01/visible.py", "tests/labs/lab01/hidden.py",  # type: ignore[union-attr]
    }  # fmt: skip
    # hidden tests, too
    assert text["tests/labs/lab01/hidden.py"] == (ROOT / "tests/labs/lab01/hidden.py").read_text()
    assert not [n for n in names if n.startswith("solutions")]
    assert not [
        n
        for n, t in text.items()
        if any(line.strip() == "### BEGIN SOLUTION" for line in t.splitlines())
    ]
    again = gradescope.write(ROOT, "lab01", tmp_path / "again.zip", seed=5)
    assert again.read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("script", ["setup.sh", "run_autograder"])
def test_the_scripts_are_bash(autograder: Path, script: str) -> None:
    path = autograder / "source" / script
    assert path.read_text().startswith("#!/usr/bin/env bash\n")
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
def test_the_solution_as_gradescope_runs_it(autograder: Path) -> None:
    hand_in(autograder, "good")
    done = run(autograder)
    assert done.returncode == 0, done.stderr
    results = json.loads((autograder / "results" / "results.json").read_text())
    check_form(results)
    assert results["score"] == 19 and sum(t["max_score"] for t in results["tests"]) == 20
    assert sandbox.best().sentence in done.stdout and "graded: 19 points" in done.stdout
    assert str(ROOT) not in json.dumps(results)


@pytest.mark.long
def test_half_done_and_broken_submissions(autograder: Path) -> None:
    hand_in(autograder, "half-done")
    half = gradescope.run("lab01", autograder, seed=5)
    check_form(half)
    right = {t["number"] for t in half["tests"]} - {
        t["number"] for t in half["tests"] if t["status"] == "failed"
    }
    assert {"1.1", "1.2"} <= right and 0 < half["score"] < 20
    assert "not written yet" in {t["output"] for t in half["tests"]}
    (autograder / "submission" / "lab01 (1).ipynb").write_text('{"cells": [')
    broken = gradescope.run("lab01", autograder, seed=5)
    check_form(broken)
    assert broken["score"] == 0 and "no readable notebook" in broken["output"]
    assert json.loads((autograder / "results" / "results.json").read_text()) == broken
    shutil.rmtree(autograder / "submission")
    (autograder / "submission").mkdir()
    (autograder / "submission" / "essay.pdf").write_text("%PDF")
    assert "no notebook (essay.pdf)" in gradescope.run("lab01", autograder, seed=5)["output"]


def test_a_fault_of_the_graders_is_no_zero(
    autograder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    hand_in(autograder, "half-done")
    old = autograder / "results" / "results.json"
    old.write_text('{"score": 20}')

    def no_wall() -> sandbox.Isolation:
        raise RuntimeError("there is no sandbox here")

    monkeypatch.setattr(sandbox, "required", no_wall)
    assert gradescope.main(["lab01", str(autograder), "--seed", "5", "--require-isolation"]) == 1
    assert "not graded: there is no sandbox here" in capsys.readouterr().err
    assert not old.exists()


def test_isolation_can_be_asked_for_and_other_files_are_kept(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lab77 has no claims in .*lab01"):
        gradescope.write(ROOT, "lab77", tmp_path / "x.zip")
    (tmp_path / "x.zip").write_text("mine")
    with pytest.raises(FileExistsError, match="move it away"):
        gradescope.write(ROOT, "lab01", tmp_path / "x.zip")
    path = gradescope.write(ROOT, "lab00", tmp_path / "y.zip", require_isolation=True)
    with zipfile.ZipFile(path) as opened:
        script = opened.read("run_autograder").decode()
    assert "course_lib.grading.batch.gradescope lab00 " in script and script.rstrip().endswith(
        "--require-isolation"
    )


# --- GitHub ---------------------------------------------------------------------------

EXAMPLE = ROOT / "data" / "examples" / "github-classroom.yml"


def steps() -> list[dict[str, Any]]:
    return yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["jobs"]["run-autograding-tests"][
        "steps"
    ]


def test_the_workflow_is_one_and_names_files_that_are_handed_out() -> None:
    workflow = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert workflow["name"] == "Autograding Tests"  # Classroom knows it by that
    assert set(workflow[True]) == {"push", "workflow_dispatch"}  # YAML 1.1 reads "on" as true
    assert list(workflow["jobs"]) == ["run-autograding-tests"]
    assert all(("uses" in step) != ("run" in step) for step in steps())
    assert (ROOT / workflow["env"]["NOTEBOOK"]).is_file()
    assert Path(workflow["env"]["NOTEBOOK"]).name.startswith(workflow["env"]["LAB"] + "_")
    assert (ROOT / "course_lib/install.py").is_file()
    assert EXAMPLE.is_relative_to(ROOT / "data")  # so a release has it


def test_the_workflow_names_commands_that_exist() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    lines = [line.strip() for step in steps() for line in step.get("run", "").splitlines()]
    calls = [line.split()[1:] for line in lines if line.startswith(".venv/bin/course ")]
    assert [call[0] for call in calls] == ["grade"]
    for name, *arguments in calls:
        given = [a.strip('"') for a in arguments]
        with commands[name].make_context(name, given, resilient_parsing=True) as context:
            assert (
                context.params["lab"] == "$LAB"
                and str(context.params["out"]) == "$RUNNER_TEMP/report"
            )


def test_the_workflow_shows_the_points(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "report" / "results").mkdir(parents=True)
    tests = [
        {"name": "1.1 a", "score": 2.0, "max_score": 2.0, "status": "passed", "output": ""},
        {
            "name": "1.2 b",
            "score": 0.0,
            "max_score": 1.0,
            "status": "failed",
            "output": "a | b\n<img src=x> `c`",
        },
    ]
    result = {"score": 2.0, "output": "", "tests": tests}
    (tmp_path / "report" / "results" / "lab01.json").write_text(json.dumps(result))
    page = tmp_path / "page.md"
    env = {**os.environ, "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(page)}
    script = next(step["run"] for step in steps() if step.get("name") == "Show the points")
    done = subprocess.run(
        ["bash", "-ec", script], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr  # a red check: not all points
    assert (
        '::notice title=Autograding report::{"totalPoints": 2.0, "maxPoints": 3.0}' in done.stdout
    )
    shown = page.read_text(encoding="utf-8")
    assert "## 2 of 3 visible points" in shown and "| ✓ | 1.1 a | 2 / 2 |" in shown
    assert "a \\| b \\<img src=x\\> \\`c\\`" in shown


def test_every_upload_is_marked_on_inputs_of_its_own(tmp_path: Path) -> None:
    """And the same upload on the same ones."""
    metadata = tmp_path / "submission_metadata.json"
    seeds = {}
    for upload in (1, 2):
        metadata.write_text(
            json.dumps({"id": 7, "created_at": f"2026-10-0{upload}T10:00:00.000000-07:00"})
        )
        seeds[upload] = gradescope._seed(5, metadata)
        assert gradescope._seed(5, metadata) == seeds[upload] != gradescope._seed(6, metadata)
    assert seeds[1] != seeds[2]
    assert gradescope._seed(5, tmp_path / "none.json") == 5
