"""``course doctor``: what is here, what is missing, and what to do about it."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course_lib.environment import PAIR
from course_lib.install import NEWEST, OLDEST
from course_lib.paths import course_root, data_places

Finding = tuple[str, str, str]  # what, what was found, the remedy ("" where all is well)
BRINGS_COURSE = 'labs and grading need pip install "pruning-course[course]"'


def run(console: Console) -> bool:
    """Print what was found; True if every lab can run."""
    needed = [*_python(), *_packages(), *_course()]
    further = [*_machine(), *_data(), *_isolation()]
    for title, findings in (("needed by every lab", needed), ("found", further)):
        table = Table(title=title, title_justify="left", show_header=False)
        for _ in range(3):
            table.add_column(overflow="fold")  # nothing is cut
        for finding in findings:
            table.add_row(*map(Text, finding))
        console.print(table)
    broken = dict.fromkeys(remedy for _, _, remedy in needed if remedy)
    said = [f"Data are looked for in: {', '.join(map(str, data_places()))}"]
    for remedy in broken:
        lacking = ", ".join(what for what, _, other in needed if other == remedy)
        said.append(f"Not ready: {remedy} ({lacking})")
    if list(broken) == [BRINGS_COURSE]:
        said.append("The library alone can run here.")
    for sentence in said if broken else [*said, "Every lab can run here."]:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    return not broken


def _python() -> list[Finding]:
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    fits = OLDEST <= sys.version_info[:2] <= NEWEST
    remedy = "" if fits else f"use Python {oldest} to {newest}: make PYTHON=python3.12 lab"
    return [("Python", platform.python_version(), remedy)]


def _packages() -> list[Finding]:
    found: list[Finding] = []
    for wanted in map(Requirement, requires("pruning-course") or []):
        in_library = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if in_library or wanted.marker.evaluate({"extra": "course"}):  # type: ignore[union-attr]
            have, requirement = _version(wanted.name), f"{wanted.name}{wanted.specifier}"
            remedy = f'pip install "{requirement}"' if have or in_library else BRINGS_COURSE
            fits = have and wanted.specifier.contains(have, prereleases=True)
            found.append((wanted.name, have or "missing", "" if fits else remedy))
    for module, remedy in (
        ("torchvision.models", f"pip install {' '.join(PAIR)}, which belong together"),
        ("transformers.models.bert.modeling_bert", "pip install --force-reinstall transformers"),
    ):
        try:
            importlib.import_module(module)
            found.append((module, "loads", ""))
        except Exception as error:  # whatever goes wrong is what the user must hear
            found.append((module, f"{type(error).__name__}: {str(error)[:120]}", remedy))
    return found


def _version(package: str) -> str:
    """The version that is installed, "" where none is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _course() -> list[Finding]:
    try:
        root = course_root()
    except ValueError as error:
        return [("course folder", "wrong", str(error))]
    if root is None:
        return [("course folder", "none here; `course lab DIR` writes one", "")]
    labs, tests = (len([*root.glob(p)]) for p in ("labs/lab*.ipynb", "tests/labs/lab*"))
    remedy = "" if labs and tests else "the folder is incomplete: unpack the course again"
    return [("course folder", f"{root}, {labs} labs, tests of {tests}", remedy)]


def _machine() -> list[Finding]:
    from course_lib import devices

    here = f"{platform.system()}, {os.cpu_count()} cores, {devices.best()}: no lab needs a GPU"
    return [("machine", here, "")]


def _data() -> list[Finding]:
    from course_lib.data import images

    found: list[Finding] = []
    for name, where in images.available().items():
        remedy = "" if where else "downloads when first used, or lies in a folder listed below"
        found.append((f"data: {name}", where or "not here", remedy))
    return found


def _isolation() -> list[Finding]:
    """Each kind of sandbox, tested on this machine, best first."""
    from course_lib.grading import sandbox

    problems = {name: sandbox.try_layer(name) for name in sandbox.LAYERS}
    found = [(f"grading: {n}", "does not work" if p else "works", p) for n, p in problems.items()]
    best = next((sandbox.Isolation(n) for n, p in problems.items() if not p), None)
    remedy = "" if best and best.is_sandbox else "to grade a class, mend one of the lines above"
    here = f"{best.name}: {'a sandbox' if best.is_sandbox else 'no sandbox'}" if best else "nowhere"
    return [*found, ("grading here", here, remedy)]
