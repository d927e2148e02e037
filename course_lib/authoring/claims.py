"""A lab's claims, read without importing them: the claim of each test, its question and
its points.

A claim is a function at the top of ``tests/labs/labNN/visible.py`` (which students
have, too) or ``hidden.py``, decorated with ``@question("1.4", points=1, claim="…")``;
the arguments are literals.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from course_lib.authoring.errors import Problems, shown

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
    """The claims of a lab, in the order of its files; [] where there are none.

    Raises:
        AuthoringError: if a file does not parse, or the arguments of ``@question`` are
            not as this module says.
    """
    problems = Problems()
    claims: list[Claim] = []
    for path in (folder / name for name in FILES if (folder / name).is_file()):
        file = shown(path, root)
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except SyntaxError as caught:
            problems.add(
                file, caught.lineno or 1, f"this does not parse ({caught.msg}): correct it"
            )
            continue
        for node in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            for mark in node.decorator_list:
                if not isinstance(mark, ast.Call) or getattr(mark.func, "id", "") != "question":
                    continue
                try:
                    (id,) = map(ast.literal_eval, mark.args)
                    given = {k.arg: ast.literal_eval(k.value) for k in mark.keywords}
                    points, claim = 0.0 + given["points"], str(given["claim"])
                except (ValueError, TypeError, KeyError):
                    message = f"{node.name}: write {_FORM}, with literals: this file is not run"
                    problems.add(file, mark.lineno, message)
                    continue
                visible = path.name == FILES[0]
                claims.append(Claim(node.name, str(id), points, visible, claim, file, mark.lineno))
    problems.stop()
    return claims
