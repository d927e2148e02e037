"""A lab's claims, read without importing them: what each one says, about which
question, and for how many points.

A claim is a function at the top of ``tests/labs/labNN/visible.py`` (which students
have, too) or ``hidden.py``, decorated with ``@question("1.4", points=1, claim="…")``;
the arguments are literals.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from course_lib.authoring.errors import Problems, error, shown

Function = ast.FunctionDef | ast.AsyncFunctionDef
FILES = ("visible.py", "hidden.py")
_FORM = '@question("1.4", points=1, claim="…")'


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


def claims_of(lab: str, root: Path) -> Path:
    """The folder of the claims of ``lab01``."""
    return root / "tests" / "labs" / lab


def read_claims(folder: Path, root: Path) -> list[Claim]:
    """What a lab claims, in its files' order; nothing where there are none.

    Raises:
        AuthoringError: if a file does not parse, or a test's decorator is not as this
            module says.
    """
    problems = Problems()
    claims: list[Claim] = []
    for name in FILES:
        if (folder / name).is_file():
            claims += _read(folder / name, shown(folder / name, root), problems)
    problems.stop()
    return claims


def _read(path: Path, file: str, problems: Problems) -> list[Claim]:
    tree = _parse(path.read_text(encoding="utf-8"), file)
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
                file,
                marks[0].lineno,
                f"{node.name}: a test of a question stands at the top of the file, not inside",
            )
        elif len(marks) > 1:
            problems.add(
                file,
                marks[1].lineno,
                f"{node.name}: one test is one claim about one question, so one @question",
            )
        elif other := next((c for c in claims if c.test == node.name), None):
            problems.add(
                file,
                node.lineno,
                f"{node.name} is defined on line {other.line} too, and would replace it:"
                " rename one",
            )
        elif claim := _claim(node, marks[0], path.name == FILES[0], file, problems):
            claims.append(claim)
    return claims


def _parse(text: str, file: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as caught:
        raise error(
            file, caught.lineno or 1, f"this does not parse ({caught.msg}): correct it"
        ) from caught


def _marks(node: Function) -> list[ast.expr]:
    """The ``@question`` decorators of a function."""

    def named(mark: ast.expr) -> str:
        called = mark.func if isinstance(mark, ast.Call) else mark
        return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")

    return [mark for mark in node.decorator_list if named(mark) == "question"]


def _claim(
    node: Function, mark: ast.expr, visible: bool, file: str, problems: Problems
) -> Claim | None:
    given: dict[str, object] = {}
    if isinstance(mark, ast.Call):
        pairs = [("id", mark.args[0])] if mark.args else []
        pairs += [(keyword.arg or "", keyword.value) for keyword in mark.keywords]
        for name, value in pairs:
            if name in ("id", "points", "claim"):
                try:
                    given[name] = ast.literal_eval(value)
                except ValueError:
                    problems.add(
                        file,
                        value.lineno,
                        f"{node.name}: `{name}` is read without running this file: write it out",
                    )
                    return None
    kinds = {"id": str, "points": int | float, "claim": str}
    wrong = [
        n
        for n, kind in kinds.items()
        if not isinstance(given.get(n), kind) or (n == "points" and given[n] is True)
    ]
    if wrong:
        problems.add(
            file,
            mark.lineno,
            f"{node.name}: {', '.join(wrong)} missing or of a wrong kind: write {_FORM}",
        )
        return None
    points = float(given["points"])  # type: ignore[arg-type]
    return Claim(
        node.name, str(given["id"]), points, visible, str(given["claim"]), file, mark.lineno
    )
