"""What of a notebook is the handout's: its cells' ids, and what they ask for."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import lru_cache

from course_lib.student_code.cells import parse

_ASKS = "write this"  # in the message of a handout's NotImplementedError


def ids(lab: str, cells: Iterable[tuple[str, str]]) -> list[str]:
    """An id per cell, a hash of what it says and of how many cells up to it say the
    same: it stays when others come and go.

    Args:
        cells: (kind, source) of each.
    """
    times: dict[tuple[str, str], int] = {}
    found = []
    for cell in cells:
        times[cell] = times.get(cell, 0) + 1
        found.append(
            hashlib.sha256(f"{lab} {cell[0]} {cell[1]} {times[cell]}".encode()).hexdigest()[:16]
        )
    return found


@lru_cache(maxsize=1024)
def asked(source: str) -> tuple[str, ...]:
    """The names that a code cell of a handout asks for, in its order."""
    return tuple(
        name
        for statement in parse([source], [])
        if asking(statement.node)
        for name in sorted(statement.binds)
    )


def asking(node: ast.stmt) -> bool:
    """Does the handout ask for something here:
    ``raise NotImplementedError("1.4 f: write this function")``, or ``name = ...``?
    """
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return isinstance(node.value, ast.Constant) and node.value.value is ...
    return any(
        isinstance(inner, ast.Raise)
        and isinstance(inner.exc, ast.Call)
        and getattr(inner.exc.func, "id", "") == "NotImplementedError"
        and any(isinstance(a, ast.Constant) and _ASKS in str(a.value) for a in inner.exc.args)
        for inner in ast.walk(node)
    )
