"""Everything that a room names at its door is there, and what it shows there is an
example that runs (see ``test_examples.py``).
"""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import course_lib
from course_lib import pruning
from unit import examples

ROOMS = sorted(f"pruning.{found.name}" for found in pkgutil.iter_modules(pruning.__path__))
SHOWN = examples.of_docstrings()


@pytest.mark.parametrize("room", [*ROOMS, "cost"])
def test_what_it_names_is_there(room: str) -> None:
    module = importlib.import_module(f"course_lib.{room}")
    assert f"course_lib.{room}" in SHOWN, "an example, behind ::"
    files = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert set(re.findall(r":mod:`\.(\w+)`", module.__doc__)) == files


def test_the_rooms_of_pruning_are_listed() -> None:
    assert re.findall(r":mod:`~course_lib\.(pruning\.\w+)`", pruning.__doc__ or "") == [
        "pruning.weights",
        *ROOMS[:-1],
    ]


def room_of(parts: Sequence[str]) -> str:
    """Experiments of a lab are a room of their own: they draw, and what draws reads
    stored results. So is the grading of a class: a release of the course goes into an
    autograder, and a build reads claims.
    """
    if [part.removesuffix(".py") for part in parts[:2]] == ["grading", "batch"]:
        return "the grading of a class"
    if parts[0] == "experiments" and len(parts) > 1 and parts[1].startswith("lab"):
        return "the labs' experiments"
    return parts[0].removesuffix(".py")


@functools.cache
def imports(file: Path) -> list[str]:
    """The dotted names that a file imports, imports within functions included."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


# lines of Python that a room may have: a library that is to stay small grows by decision
LINES = {
    "authoring": 3230, "capstone": 600, "cost": 1290, "data": 1300, "experiments": 5140,
    "grading": 7160, "labs": 1150, "models": 1650, "pruning/activations": 180,
    "pruning/channels": 1710, "pruning/components": 280, "pruning/heads": 1480,
    "pruning/layers": 530, "pruning/tokens": 900, "pruning/weights": 2590, "sandbox_child": 1340,
    "show": 2430, "student_code": 2030, "": 2810,
}  # fmt: skip


def test_no_room_outgrows_its_lines() -> None:
    home = Path(pruning.__file__).parents[1]
    found = dict.fromkeys(LINES, 0)
    for file in home.rglob("*.py"):
        *folders, _ = file.relative_to(home).parts
        room = "/".join(folders[: 2 if folders[:1] == ["pruning"] else 1])
        if room != "pruning":
            found[room] += len(file.read_text(encoding="utf-8").splitlines())
    grown = {room: lines for room, lines in found.items() if lines > LINES[room]}
    assert not grown, "take lines out elsewhere in the room, or decide here that it may grow"


def test_imports_lead_down() -> None:
    """From room to room there is no way round in a circle, imports within functions
    included: what stands below can be read, and moved, without what stands above.
    """
    home = Path(pruning.__file__).parents[1]
    below: dict[str, set[str]] = {}
    for file in home.rglob("*.py"):
        room = room_of(file.relative_to(home).parts)
        found = below.setdefault(room, set())
        parts = [name.split(".") for name in imports(file) if name.startswith("course_lib.")]
        found |= {room_of(part[1:]) for part in parts}
    graph = {
        room: {other for other in found if other in below} - {room} for room, found in below.items()
    }
    assert sum(map(len, graph.values())) > 50
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the rooms


def test_the_sandbox_is_entered_by_its_door_only() -> None:
    """Of the grader's half, others import the names in its ``__all__``; of the child's half,
    nothing. Tests of the grader and attacks may look inside.
    """
    home = Path(pruning.__file__).parents[1]
    door, inside = "course_lib.grading.sandbox", "course_lib.sandbox_child"
    names = {f"{door}.{name}" for name in importlib.import_module(door).__all__}
    halves = [home / "grading" / "sandbox", home / "sandbox_child"]
    apart = [home.parent / "tests" / folder for folder in ("grading", "attacks")]
    files = [
        file
        for folder in ("course_lib", "solutions", "slides", "tests")
        for file in (home.parent / folder).rglob("*.py")
        if not any(map(file.is_relative_to, [*halves, *apart]))
    ]
    naming = [file for file in files if "sandbox" in file.read_text(encoding="utf-8")]
    used = {name for file in naming for name in imports(file) if name.startswith((door, inside))}
    assert len(files) > 200 and f"{door}.Worker" in used
    assert used - names - {door} == set()
    for file in halves[1].glob("*.py"):  # the child's half knows nothing of the grader's
        assert not any(name.startswith("course_lib.grading") for name in imports(file))


def test_the_library_imports_nothing_of_what_runs_the_course() -> None:
    """The two halves are those of the package's docstring, which names every room once."""
    home = Path(pruning.__file__).parents[1]
    halves = [
        re.findall(r":mod:`\.(\w+)`", half)
        for half in (course_lib.__doc__ or "").split("**Runs the course")
    ]
    library, running = halves
    assert sorted(library + running) == sorted(
        found.name for found in pkgutil.iter_modules(course_lib.__path__)
    )
    used = {
        name.split(".")[1]
        for file in home.rglob("*.py")
        if file.relative_to(home).parts[0].removesuffix(".py") in library
        for name in imports(file)
        if name.startswith("course_lib.")
    }
    assert {"models", "pruning"} <= used and used & set(running) == set()
