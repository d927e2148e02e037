"""What else of the course knows a lab's questions: its contract with the reference answers, and its wrong and right answers.

Read without importing them, so that what is missing is said at once, and of the course that is built, whichever is installed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_lib.authoring import claims
from course_lib.authoring.errors import error, shown
from course_lib.worker.watch import LIBRARY

REFERENCE = "course_lib.grading.reference"
_FORM = 'QUESTIONS = {"1.4": Asked(("global_masks",)), …}'
_KEPT = {"QUESTIONS", "IMPORTS"}


def contract_of(lab: str, root: Path) -> Path:
    """Where the contract of ``lab01`` is."""
    return root / REFERENCE.replace(".", "/") / f"{lab}.py"


@dataclass(frozen=True)
class Contract:
    """A lab's contract.

    Attributes:
        file: its path as messages name it. text: the module.
        asked: the graded names of each question. lines: the line of each question.
    """

    file: str
    text: str
    asked: dict[str, tuple[str, ...]]
    lines: dict[str, int]

    @cached_property
    def _statements(self) -> list[claims.Statement]:
        return claims.statements_of(self.text, self.file)

    @cached_property
    def bound(self) -> set[str]:
        """All names that the module binds."""
        return {name for s in self._statements for name in s.binds}

    @cached_property
    def own(self) -> dict[str, int]:
        """The graded names whose answer is written in this file itself, with their lines: they call nothing of the library.

        What goes through another question's answer does not count as the library's: ``find_bug`` may compare with it.
        """
        graded = {name for names in self.asked.values() for name in names}
        roots = {name: set(_roots(s.node)) for s in self._statements for name in s.binds}
        library = {name for s in self._statements if _of_the_library(s.node) for name in s.binds}
        own = {}
        for s in self._statements:
            for name in s.binds & graded - library:
                reached = set(roots[name])
                while more := {n for helper in reached & roots.keys() - graded for n in roots[helper]} - reached:
                    reached |= more
                if not reached & library:
                    own[name] = s.first
        return own

    def handed_out(self) -> str:
        """The module without the answers of its own, and without what only those use.

        In the place of a function stands one that does nothing: who skips the question can go on with the lab.
        """
        gone = set(self.own)
        while more := {n for s in self._statements if s.reads & gone for n in s.binds} - gone - _KEPT:
            gone |= more
        kept = (_KEPT | {name for names in self.asked.values() for name in names}) - gone
        wanted, useful = (lambda s: bool(s.binds & kept)), (lambda s: not s.binds & gone)
        text = claims.part(self.text, self.file, wanted, useful, kept)
        functions = {s.node.name for s in self._statements if isinstance(s.node, ast.FunctionDef)} & gone
        return text + "".join(
            f'\n\ndef {name}(*args: object, **options: object) -> None:\n    """{id}: the answer stays with your instructor."""\n'
            for id, names in self.asked.items()
            for name in names
            if name in functions
        )


def read(lab: str, root: Path) -> Contract:
    """The contract of ``lab01``.

    Raises:
        AuthoringError: if there is none, or it cannot be read without running it.
    """
    path = contract_of(lab, root)
    file = shown(path, root)
    if not path.is_file():
        raise error(file, 1, f"{lab} has no contract and no reference answers: write this file, with `{_FORM}`")
    text = path.read_text(encoding="utf-8")
    asked: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    for s in claims.statements_of(text, file):
        value = getattr(s.node, "value", None)
        if "QUESTIONS" in s.binds and isinstance(value, ast.Dict):
            for key, called in zip(value.keys, value.values, strict=True):
                try:
                    assert key is not None and isinstance(called, ast.Call)
                    id = str(ast.literal_eval(key))
                    asked[id], lines[id] = tuple(ast.literal_eval(called.args[0])), called.lineno
                except (ValueError, TypeError, AssertionError, IndexError):
                    message = f"QUESTIONS is read without running this file: write `{_FORM}`"
                    raise error(file, called.lineno, message) from None
    if not asked:
        raise error(file, 1, f"this names no question: write `{_FORM}`")
    return Contract(file, text, asked, lines)


def answers(lab: str, root: Path) -> list[tuple[str, str, str, int]]:
    """The answers with which the tests of ``lab01`` are tried: the question of each, "wrong" or "right", its file and line."""
    found = []
    for path in sorted((root / "tests" / "mutants" / lab).glob("*.py")):
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        if said := re.match(r"# (loses|keeps) (\d+\.\d+)", first):
            found.append((said[2], "wrong" if said[1] == "loses" else "right", shown(path, root), 1))
    return found


def used(text: str, file: str, names: Collection[str]) -> Iterator[tuple[str, set[str]]]:
    """Which of the reference answers ``names`` a test module uses: (the answer, the names that the statement binds)."""
    statements = claims.statements_of(text, file)
    imports = [node for s in statements for node in ast.walk(s.node) if isinstance(node, ast.ImportFrom)]
    modules = {a.asname or a.name for node in imports if node.module == REFERENCE for a in node.names}
    for s in statements:
        for node in ast.walk(s.node):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in modules and node.attr in names:
                yield node.attr, s.binds
            elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{REFERENCE}."):
                yield from ((alias.name, s.binds) for alias in node.names if alias.name in names)


def _of_the_library(node: ast.stmt) -> bool:
    """Does it import from what teaches pruning and counts its cost?"""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return any(f"{name}.".startswith(f"{place}.") for name in names for place in LIBRARY)


def _roots(node: ast.AST) -> Iterator[str]:
    """What a function calls, what a class is made of, what an assigned value is: the names that ``a`` in ``a.b(…)`` stands for."""
    values: list[ast.AST] = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    values += getattr(node, "bases", [])
    values += [node.value] if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None else []
    for value in values:
        while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
            value = value.func if isinstance(value, ast.Call) else value.value
        if isinstance(value, ast.Name):
            yield value.id
