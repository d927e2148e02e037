"""What else of the course knows a lab's questions: its contract with the library's
answers, its claims, and the wrong and right answers with which these are tried.

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

from course_lib.authoring.errors import AuthoringError, error, shown
from course_lib.grading.claims.question import FILES, Test, tests_in, texts_in
from course_lib.labs import Contract as Asked
from course_lib.student_code.cells import scope
from course_lib.student_code.watch import LIBRARY

_FORM = '@lab.asks("1.4")'


def contract_of(lab: str, root: Path) -> Path:
    """Where the contract of ``lab01`` is."""
    return root / "course_lib" / "labs" / f"{lab}.py"


def claims_of(lab: str, root: Path) -> Path:
    """The folder of the claims of ``lab01``."""
    return root / "tests" / "labs" / lab


@dataclass(frozen=True)
class Contract:
    """A lab's contract as its file has it; ``file`` as messages name it."""

    file: str
    text: str
    asked: Asked

    def line(self, what: str) -> int:
        """Where a question or a name stands first."""
        found = re.search(rf"\b{re.escape(what)}\b", self.text)
        return self.text.count("\n", 0, found.start()) + 1 if found else 1

    @cached_property
    def own(self) -> dict[str, int]:
        """The graded names whose answer is written out in this file, with their lines:
        they call nothing of the library.

        What goes through another question's answer does not count as the library's.
        """
        graded = set(self.asked.graded)
        library: set[str] = set()
        calls: dict[str, set[str]] = {}
        lines: dict[str, int] = {}
        for node in ast.parse(self.text).body:
            names = scope(node)[0]
            calls |= dict.fromkeys(names, set(_roots(node)))
            library |= names if _of_the_library(node) else set()
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                lines |= dict.fromkeys(names & graded, node.lineno)

        def reaches(names: set[str]) -> set[str]:
            more = {n for name in names & calls.keys() - graded for n in calls[name]} - names
            return reaches(names | more) if more else names

        return {
            name: line
            for name, line in lines.items()
            if name not in library and not reaches(calls[name]) & library
        }


def read(lab: str, root: Path) -> Contract:
    """The contract of ``lab01``.

    Raises:
        AuthoringError: if there is none, or it cannot be imported.
    """
    path = contract_of(lab, root)
    file = shown(path, root)
    if not path.is_file():
        message = f"{lab} has no contract and no answers of the library: write it, with `{_FORM}`"
        raise error(file, 1, message)
    spec = importlib.util.spec_from_file_location(f"course_contract_{lab}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as caught:
        raise _not_imported(caught, [path], root) from caught
    asked = getattr(module, "lab", None)
    if not isinstance(asked, Asked) or not asked.questions:
        form = f'`lab = Contract("{lab}")`, and `{_FORM}` above each answer'
        raise error(file, 1, f"this asks for nothing: write {form}")
    return Contract(file, path.read_text(encoding="utf-8"), asked)


def _not_imported(caught: Exception, paths: list[Path], root: Path) -> AuthoringError:
    """What the import of one of these files ended with, and where in them."""
    ours = [str(path) for path in paths]
    stack = traceback.extract_tb(caught.__traceback__)
    places = [(frame.filename, frame.lineno) for frame in stack if frame.filename in ours]
    if isinstance(caught, SyntaxError) and caught.filename in ours:
        places.append((caught.filename, caught.lineno))
    file, line = places[-1] if places else (ours[0], 1)
    message = f"this cannot be imported ({type(caught).__name__}: {caught}): correct it"
    return error(shown(Path(file), root), line or 1, message)


def claims(lab: str, root: Path) -> list[Test]:
    """The claims of ``lab01``; [] where there are none.

    Raises:
        AuthoringError: if a file of them cannot be imported.
    """
    folder = claims_of(lab, root)
    paths = [folder / name for name in FILES if (folder / name).is_file()]
    try:
        return tests_in(texts_in(folder), str(folder)) if paths else []
    except Exception as caught:
        raise _not_imported(caught, paths, root) from caught


def place(claim: Test, root: Path) -> tuple[str, int]:
    """The file of a claim, as messages name it, and its line there."""
    code = claim.run.__code__
    return shown(Path(code.co_filename), root), code.co_firstlineno


def answers(lab: str, root: Path) -> list[tuple[str, str, str, int]]:
    """The answers with which the claims of ``lab01`` are tried: the question of each,
    "wrong" or "right", its file and line.
    """
    kinds = {"loses": "wrong", "keeps": "right"}
    found = []
    for path in sorted((root / "tests" / "labs" / lab / "answers").glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if said := re.match(r"(loses|keeps) \S", line):
                found.append((path.stem, kinds[said[1]], shown(path, root), number))
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
