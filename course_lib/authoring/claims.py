"""A lab's tests, read without importing them: what each one claims, and the copy of them that students may see.

A test is a function at the top of ``tests/labs/test_labNN.py`` decorated with
``@question("1.4", points=1, visible=True, claim="…")``; the arguments are literals.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from course_lib.authoring.errors import Problems, error, shown
from course_lib.worker.cells import scope

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FORM = '@question("1.4", points=1, visible=True, claim="…")'


@dataclass(frozen=True)
class Claim:
    """One test: one claim about one question."""

    test: str
    question: str
    points: float
    visible: bool
    claim: str
    file: str
    line: int


def tests_of(lab: str, root: Path) -> Path:
    """Where the tests of ``lab01`` are."""
    return root / "tests" / "labs" / f"test_{lab}.py"


def read_claims(path: Path, root: Path) -> list[Claim]:
    """What the tests in a file claim, in their order.

    Raises:
        AuthoringError: if the file does not parse, or a test's decorator is not as this module says.
    """
    file = shown(path, root)
    tree = _parse(path.read_text(encoding="utf-8"), file)
    problems = Problems()
    claims: list[Claim] = []
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        marks = _marks(node)
        if not marks:
            continue
        if id(node) not in top:
            problems.add(
                file, marks[0].lineno, f"{node.name}: a test of a question stands at the top of the file, not inside"
            )
        elif len(marks) > 1:
            problems.add(
                file, marks[1].lineno, f"{node.name}: one test is one claim about one question, so one @question"
            )
        elif other := next((c for c in claims if c.test == node.name), None):
            problems.add(
                file, node.lineno, f"{node.name} is defined on line {other.line} too, and would replace it: rename one"
            )
        elif claim := _claim(node, marks[0], file, problems):
            claims.append(claim)
    problems.stop()
    return claims


def visible_only(text: str, file: str) -> str:
    """The tests that students may see: visible ones, and of the rest of the file only what those use.

    Raises:
        AuthoringError: if the file does not parse.
    """
    return part(text, file, lambda s: s.test == "visible", lambda s: s.test == "no")


def part(
    text: str,
    file: str,
    wanted: Callable[[Statement], bool],
    useful: Callable[[Statement], bool],
    names: Collection[str] = (),
) -> str:
    """What is wanted of a module, and of its useful statements those that it uses.

    Comments stay where they touch a statement that stays; so no word about what goes is left.

    Args:
        names: what others use of it, so that it may be imported without being used here.

    Raises:
        AuthoringError: if the file does not parse.
    """
    statements = statements_of(text, file)
    kept = {id(s) for s in statements if wanted(s) or s.always}
    while True:
        needed = {name for s in statements if id(s) in kept for name in s.reads}
        more = {id(s) for s in statements if useful(s) and s.binds & needed} - kept
        if not more:
            # What binds nothing (a call at the top of the file) stays if everything it names does; imports may come back for it.
            here = {name for s in statements for name in s.binds}
            safe = {name for s in statements if id(s) in kept or s.imports for name in s.binds}
            more = {id(s) for s in statements if useful(s) and not s.binds and s.reads & here <= safe} - kept
        if not more:
            break
        kept |= more
    needed = {name for s in statements if id(s) in kept for name in s.reads} | set(names)
    lines = text.splitlines()
    out: list[str] = []
    previous = 0  # the last line of the statement before, kept or not
    for s in statements:
        first, last = s.first, s.last
        block = lines[first - 1 : last] if not s.imports else s.import_lines(needed, lines)
        comments = first - 1
        while comments > previous and lines[comments - 1].lstrip().startswith("#"):
            comments -= 1
        gap = comments
        while gap > previous and not lines[gap - 1].strip():
            gap -= 1
        if id(s) in kept and block:
            out += ([""] * min(comments - gap, 2) if out else []) + lines[comments : first - 1] + block
        previous = last
    return "\n".join(out).strip("\n") + "\n"


class Sources:
    """A module read without importing it: which of its statements a name rests on.

    Raises:
        AuthoringError: if the file does not parse.
    """

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._statements = statements_of(text, file)

    def reached(self, names: Iterable[str]) -> str:
        """The statements at the top of the file that bind ``names`` or what those read, in the file's order.

        What binds nothing (a call at the top of the file) and ``from … import *`` may matter to everything: both always belong
        to it; the file's docstring does not.
        """
        needed = set(names)
        while True:
            kept = [s for s in self._statements if s.binds & needed or (not s.binds - {"*"} and not s.always)]
            more = {name for s in kept for name in s.reads} - needed
            if not more:
                return "\n".join(line for s in kept for line in self._lines[s.first - 1 : s.last])
            needed |= more


def statements_of(text: str, file: str) -> list[Statement]:
    """The statements at the top of a module.

    Raises:
        AuthoringError: if the file does not parse.
    """
    return [Statement(node) for node in _parse(text, file).body]


def _parse(text: str, file: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as caught:
        raise error(file, caught.lineno or 1, f"this does not parse ({caught.msg}): correct it") from caught


def _marks(node: Function) -> list[ast.expr]:
    """The ``@question`` decorators of a function."""

    def named(mark: ast.expr) -> str:
        called = mark.func if isinstance(mark, ast.Call) else mark
        return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")

    return [mark for mark in node.decorator_list if named(mark) == "question"]


def _claim(node: Function, mark: ast.expr, file: str, problems: Problems) -> Claim | None:
    given: dict[str, object] = {}
    if isinstance(mark, ast.Call):
        pairs = [("id", mark.args[0])] if mark.args else []
        pairs += [(keyword.arg or "", keyword.value) for keyword in mark.keywords]
        for name, value in pairs:
            if name in ("id", "points", "visible", "claim"):
                try:
                    given[name] = ast.literal_eval(value)
                except ValueError:
                    problems.add(
                        file, value.lineno, f"{node.name}: `{name}` is read without running this file: write it out"
                    )
                    return None
    given.setdefault("visible", True)  # as the decorator has it
    kinds = {"id": str, "points": int | float, "visible": bool, "claim": str}
    wrong = [
        n for n, kind in kinds.items() if not isinstance(given.get(n), kind) or (n == "points" and given[n] is True)
    ]
    if wrong:
        problems.add(file, mark.lineno, f"{node.name}: {', '.join(wrong)} missing or of a wrong kind: write {_FORM}")
        return None
    points = float(given["points"])  # type: ignore[arg-type]
    return Claim(node.name, str(given["id"]), points, bool(given["visible"]), str(given["claim"]), file, mark.lineno)


class Statement:
    """A statement at the top of a module: what it binds and reads, which lines are its own, of which kind of test it is."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node
        self.first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
        self.last = node.end_lineno or node.lineno
        self.imports = isinstance(node, ast.Import | ast.ImportFrom)
        self.binds, self.reads = scope(node)
        if isinstance(node, Function):  # pytest's fixtures are asked for by the names of arguments
            self.reads |= {arg.arg for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
        self.test = self._kind()

    def _kind(self) -> str:
        """ "visible" or "hidden" for a question's test, "hidden" for any other pytest test, "no" for the rest."""
        node = self.node
        if not isinstance(node, Function):
            return "hidden" if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else "no"
        for mark in _marks(node):
            said = [keyword.value for keyword in getattr(mark, "keywords", []) if keyword.arg == "visible"]
            return "visible" if all(isinstance(v, ast.Constant) and v.value is True for v in said) else "hidden"
        return "hidden" if node.name.startswith("test") else "no"

    @property
    def always(self) -> bool:
        """The file's docstring and ``from __future__ import …``."""
        node = self.node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return True
        return isinstance(node, ast.ImportFrom) and node.module == "__future__"

    def import_lines(self, needed: set[str], lines: list[str]) -> list[str]:
        """The import, without the names that nothing needs any more."""
        node = self.node
        assert isinstance(node, ast.Import | ast.ImportFrom)
        names = (
            node.names
            if self.always
            else [a for a in node.names if (a.asname or a.name).split(".")[0] in needed | {"*"}]
        )
        if len(names) == len(node.names):
            return lines[self.first - 1 : self.last]
        if not names:
            return []
        if isinstance(node, ast.Import):
            return [ast.unparse(ast.Import(names))]
        return [ast.unparse(ast.ImportFrom(node.module, names, node.level))]
