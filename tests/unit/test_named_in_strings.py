"""Files and modules that are named in strings exist: what is moved must be renamed
there too, and no import would say so.

A canary that is gone is never found, and a wall that leaks passes for ever; a name that
is handed through or let pass by its old name is suddenly refused.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

import course_lib
from course_lib import labs
from course_lib.student_code import watch
from unit.test_rooms import imports

PACKAGE = Path(course_lib.__file__).parent
ROOT = PACKAGE.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("data/*.md"), *ROOT.glob("data/examples/*"), *ROOT.glob("solutions/*.py"),
         *ROOT.glob("slides/*.py"), ROOT / "Makefile"]  # fmt: skip
DOTTED = re.compile(r"\bcourse_lib(?:\.[A-Za-z_]\w*)+")
SLASHED = re.compile(r"\b(?:course_lib|tests/unit)/[\w/.]*\w")


def strings(path: Path) -> Iterator[str]:
    """All that stands in quotes in a module, docstrings too; of other files all there
    is.
    """
    if path.is_relative_to(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    else:
        yield path.read_text()


def resolves(name: str) -> bool:
    """Is ``a.b.c`` a module, or something inside of one?"""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[length:], module)
        except AttributeError:
            return False
        return True
    return False


@pytest.mark.parametrize(
    "path", [*SOURCES, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_what_is_named_is_there(path: Path) -> None:
    said = list(strings(path))
    names = {name for text in said for name in DOTTED.findall(text)}
    paths = {name for text in said for name in SLASHED.findall(text)}
    assert [name for name in sorted(names) if not resolves(name)] == []
    assert [name for name in sorted(paths) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("folder", ["attacks", "benchmarks", "../slides"])
def test_what_is_imported_is_there(folder: str) -> None:
    """Stand-ins take any name, and nobody runs decks and benchmarks often: a borrowed
    answer would be none.
    """
    files = sorted((ROOT / "tests" / folder).resolve().rglob("*.py"))
    found = {
        name: path for path in files for name in imports(path) if name.startswith("course_lib")
    }
    assert found
    assert {name: path for name, path in found.items() if not resolves(name)} == {}


def test_names_that_are_not_there_are_noticed() -> None:
    assert resolves("course_lib.models.attention.Attention")
    assert not resolves("course_lib.models.attentions")
    assert not resolves("course_lib.models.attention.Attentions")
    assert DOTTED.findall("see :mod:`course_lib.a.b` and course_lib.") == ["course_lib.a.b"]
    assert SLASHED.findall("open `course_lib/a/b.py`, and course_lib/c.") == [
        "course_lib/a/b.py",
        "course_lib/c",
    ]


def test_what_torch_calls_round_a_step_is_not_the_students() -> None:
    """The names are compared with a frame's: of its module, and of its code."""
    for name in watch.NOT_THE_STUDENTS:
        place, _, what = name.rpartition(".")
        function = getattr(importlib.import_module(place), what)
        assert f"{function.__module__}.{function.__code__.co_qualname}" == name


@pytest.mark.parametrize("lab", sorted(path.stem[:5] for path in ROOT.glob("solutions/lab*.py")))
def test_what_a_question_forbids_is_there(lab: str) -> None:
    """Else a borrowed answer is no longer noticed."""
    forbidden = {name for asked in labs.load(lab).questions.values() for name in asked.forbidden}
    assert [name for name in sorted(forbidden) if not resolves(name)] == []
