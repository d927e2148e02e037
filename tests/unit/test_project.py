"""What code hosts read of the project: it names the version, the Pythons and the
commands that there are.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from typer.testing import CliRunner

from course_lib import cli, environment, install
from course_lib.authoring import site
from course_lib.experiments import lab12
from course_lib.grading.batch import gradescope

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKE = set(
    re.findall(r"^(\w[\w -]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)
TARGETS = {target for line in MAKE for target in line.split()}


def read(name: str) -> Any:
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".json"):  # with comments, as development containers have it
        return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return yaml.safe_load(text)


def test_the_citation_and_the_changes_know_the_version() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert f"\n## {PROJECT['version']}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_all_that_is_tracked_at_the_top_is_in_the_layout_of_the_readme() -> None:
    git = ["git", "-C", str(ROOT), "ls-files"]
    listed = subprocess.run(git, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in listed.stdout.splitlines()}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (layout,) = re.findall(r"^At the top are (.*?)\. Code", readme, re.MULTILINE)
    named = {name.rstrip("/") for name in re.findall(r"`([^`]+)`", layout)}
    assert {name for name in top if not name.startswith(".")} == named


def test_the_workflow_tries_every_python_that_the_readme_names() -> None:
    workflow = read(".github/workflows/test.yml")
    pythons = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"Python (3\.\d+(?:, 3\.\d+)* or 3\.\d+)", readme)
    assert pythons == re.findall(r"3\.\d+", said)
    oldest, above = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()  # type: ignore[union-attr]
    assert pythons == [f"3.{minor}" for minor in range(int(oldest), int(above))]
    assert ((3, int(oldest)), (3, int(above) - 1)) == (install.OLDEST, install.NEWEST)
    (tried,) = re.findall(r"for version in (.*); do", gradescope.SETUP)
    assert sorted(tried.split()) == pythons
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    called = {target for step in steps for target in re.findall(r"make ([\w-]+)", step)}
    assert called == {"test", "test-all"} and called <= TARGETS
    assert "`make test-all`" in readme


def test_set_up_tries_a_pair_in_the_ranges_and_the_readme_names_it() -> None:
    declared = {r.name: r.specifier for r in map(Requirement, PROJECT["dependencies"])}
    for name, number in (pin.split("==") for pin in environment.PAIR):
        assert number in declared[name]
    assert f"pip install {' '.join(environment.PAIR)} --index-url {environment.CPU_INDEX}" in (
        ROOT / "README.md"
    ).read_text(encoding="utf-8")


def test_lab_12_and_the_readme_name_the_model_that_set_up_installs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"pip install {' '.join(environment.DECODER)} gguf" == lab12.INSTALL
    assert f"pip install {' '.join(environment.DECODER)} " in readme


def test_the_workflow_tries_both_ends_of_the_ranges() -> None:
    declared = {r.name: r.specifier for r in map(Requirement, PROJECT["dependencies"])}
    jobs = read(".github/workflows/test.yml")["jobs"]
    pythons = jobs["test"]["strategy"]["matrix"]["python"]
    lowest, newest = jobs["versions"]["strategy"]["matrix"]["include"]
    for name, number in (
        pin.split("==") for pin in f"{lowest['torch']} {lowest['transformers']}".split()
    ):
        (least,) = [s.version for s in declared[name] if s.operator == ">="]
        assert Version(number) == Version(least)
    assert f"{newest['torch']} {newest['transformers']}" == "torch torchvision transformers"
    assert [lowest["python"], newest["python"]] == [pythons[0], pythons[-1]]


@pytest.mark.parametrize(
    "has", ["nothing", "a pair", "no wheel of the pair", "other versions", "no model"]
)
def test_set_up_leaves_torch_alone_or_tries_the_pair_then_the_ranges(
    has: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        called.append([str(word) for word in command])
        asked = " ".join(called[-1])
        fails = "v('torch')" in asked and has != "a pair"
        fails |= environment.PAIR[0] in asked and has == "no wheel of the pair"
        fails |= "--constraint" in asked and has == "other versions"
        fails |= environment.DECODER[1] in asked and has == "no model"
        return subprocess.CompletedProcess(command, int(fails), f"{tmp_path}", "")

    for python in ("bin/python", "Scripts/python.exe"):  # one of them is this system's
        (tmp_path / ".venv" / python).parent.mkdir(parents=True)
        (tmp_path / ".venv" / python).touch()
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "_torch_index", lambda: ["--index-url", "here"])
    monkeypatch.setattr(environment.subprocess, "run", run)
    environment.main([])
    pips = [command[command.index("--no-compile") + 1 :] for command in called if "pip" in command]
    pair = ["--index-url", "here", *environment.PAIR]
    ranges = [d for d in PROJECT["dependencies"] if re.match(r"torch(vision)?>", d)]
    course = ["-e", ".[course]"]
    locked = ["--constraint", str(environment.LOCK), *course]
    expected = {
        "nothing": [pair, locked],
        "a pair": [locked],
        "no wheel of the pair": [pair, ["--index-url", "here", *ranges], locked],
        "other versions": [pair, locked, course],
        "no model": [pair, locked],
    }
    assert pips == [*expected[has], [*environment.DECODER]]
    said = f"Lab 12 needs it: pip install {' '.join(environment.DECODER)}\n"
    assert (said in capsys.readouterr().out) == (has == "no model")


def test_locked_versions_are_in_the_ranges_and_leave_pytorch_to_set_up() -> None:
    locked: dict[str, list[Version]] = {}
    for line in environment.LOCK.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            pin = Requirement(line)
            locked.setdefault(pin.name, []).append(Version(str(pin.specifier).removeprefix("==")))
    extras = [one for some in PROJECT["optional-dependencies"].values() for one in some]
    for needed in map(Requirement, [*PROJECT["dependencies"], *extras]):
        if needed.name in ("torch", "torchvision", PROJECT["name"]):
            assert needed.name not in locked
        else:
            assert all(version in needed.specifier for version in locked[needed.name]), needed


def test_the_site_is_published_by_hand_alone() -> None:
    workflow = read(".github/workflows/pages.yml")
    # the walkthroughs are the solutions; YAML 1.1 reads `on` as true
    assert list(workflow[True]) == ["workflow_dispatch"]
    build = workflow["jobs"]["build"]["steps"]
    called = re.findall(r"make ([\w-]+)", " ".join(step.get("run", "") for step in build))
    assert called == ["slides", "site"] and {*called} <= TARGETS
    (artifact,) = [step["with"]["path"] for step in build if "pages" in step.get("uses", "")]
    assert artifact == site.BUILT.as_posix()
    assert "`make site`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_container_sets_the_course_up_and_opens_it() -> None:
    container = read(".devcontainer/devcontainer.json")
    _, script = container["onCreateCommand"].split()
    assert (ROOT / script).is_file()
    make, target = container["postAttachCommand"].split()
    assert make == "make" and target in TARGETS
    image = re.search(r":(3\.\d+)", container["image"])
    assert (
        image is not None
        and image[1]
        in read(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    )


@pytest.mark.parametrize("name", ["REMOTE_CONTAINERS", "CODESPACES", "DISPLAY"])
def test_the_lab_opens_where_there_is_a_browser(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (
        "REMOTE_CONTAINERS",
        "CODESPACES",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "WSL_DISTRO_NAME",
    ):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, ":0" if name == "DISPLAY" else "true")
    called: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command, cwd: called.append(command) or 0)
    assert CliRunner().invoke(cli.app, ["lab"]).exit_code == 0
    assert "--no-browser" not in called[0]
    assert ("--ServerApp.use_redirect_file=False" in called[0]) == (name != "DISPLAY")
