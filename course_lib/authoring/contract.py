"""What else of the course knows a lab's questions: its contract with the library's
answers, and the wrong and right answers with which its claims are tried.

Read from the course that is built, whichever is installed.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_lib.authoring.errors import error, shown
from course_lib.labs import Contract as Asked
from course_lib.student_code.cells import scope
from course_lib.student_code.watch import LIBRARY

_FORM = '@lab.asks("1.4")'


def contract_of(lab: str, root: Path) -> Path:
    """Where the contract of ``lab01`` is."""
    return root / "course_lib" / "labs" / f"{lab}.py"


@dataclass(frozen=True)
class Contract:
    """A lab's contract as its file has it; ``file`` as messages name it."""

    file: str
    text: str
    asked: Asked

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The graded names of each question."""
        return {id: exercise.names for id, exercise in self.asked.questions.items()}

    def line(self, what: str) -> int:
        """Where a question or a name stands first."""
        lines = self.text.splitlines()
        return next(
            (
                number
                for number, line in enumerate(lines, start=1)
                if re.search(rf"\b{re.escape(what)}\b", line)
            ),
            1,
        )

    @cached_property
    def own(self) -> dict[str, int]:
        """The graded names whose answer is written out in this file, with their lines:
        they call nothing of the library.

        What goes through another question's answer does not count as the library's.
        """
        tree = ast.parse(self.text)
        binds = {id(node): scope(node)[0] for node in tree.body}
        graded = {name for names in self.names.values() for name in names}
        library = {name for node in tree.body if _of_the_library(node) for name in binds[id(node)]}
        roots = {name: set(_roots(node)) for node in tree.body for name in binds[id(node)]}
        own = {}
        for node in tree.body:
            for name in (
                binds[id(node)] & graded - library
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
                else ()
            ):
                reached = set(roots[name])
                while (
                    more := {n for helper in reached & roots.keys() - graded for n in roots[helper]}
                    - reached
                ):
                    reached |= more
                if not reached & library:
                    own[name] = node.lineno
        return own


def read(lab: str, root: Path) -> Contract:
    """The contract of ``lab01``.

    Raises:
        AuthoringError: if there is none, or it cannot be imported.
    """
    path = contract_of(lab, root)
    file = shown(path, root)
    if not path.is_file():
        raise error(
            file,
            1,
            f"{lab} has no contract and no answers of the library: write this file, with `{_FORM}`",
        )
    spec = importlib.util.spec_from_file_location(f"course_contract_{lab}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as caught:
        frames = [
            frame
            for frame in traceback.extract_tb(caught.__traceback__)
            if frame.filename == str(path)
        ]
        line = (
            caught.lineno if isinstance(caught, SyntaxError) else frames[-1].lineno if frames else 1
        )
        raise error(
            file,
            line or 1,
            f"this cannot be imported ({type(caught).__name__}: {caught}): correct it",
        ) from caught
    asked = getattr(module, "lab", None)
    if not isinstance(asked, Asked) or not asked.questions:
        raise error(
            file,
            1,
            f'this asks for nothing: write `lab = Contract("{lab}")`, and `{_FORM}` above each'
            " answer",
        )
    return Contract(file, path.read_text(encoding="utf-8"), asked)


def answers(lab: str, root: Path) -> list[tuple[str, str, str, int]]:
    """The answers with which the claims of ``lab01`` are tried: the question of each,
    "wrong" or "right", its file and line.
    """
    found = []
    for path in sorted((root / "tests" / "labs" / lab / "answers").glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if said := re.match(r"(loses|keeps) \S", line):
                found.append(
                    (
                        path.stem,
                        "wrong" if said[1] == "loses" else "right",
                        shown(path, root),
                        number,
                    )
                )
    return found


def _of_the_library(node: ast.stmt) -> bool:
    """Does it import from what teaches pruning and counts its cost?"""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return any(f"{name}.".startswith(f"{place}.") for name in names for place in LIBRARY)


def _roots(node: ast.AST) -> Iterator[str]:
    """What a function calls, what a class is made of: the names that ``a`` in
    ``a.b(…)`` stands for.
    """
    values: list[ast.AST] = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    values += getattr(node, "bases", [])
    for value in values:
        while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
            value = value.func if isinstance(value, ast.Call) else value.value
        if isinstance(value, ast.Name):
            yield value.id
