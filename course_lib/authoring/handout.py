"""What of a notebook is the handout's: its cells' ids, what they ask for, and the copy
of it that a student notebook carries.

From the copy, `course update` tells what the student wrote, without the folder that was
once handed out.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import zlib
from collections.abc import Iterable
from functools import lru_cache

from course_lib.student_code.cells import parse

MAX_BYTES = 8 << 20  # of an unpacked copy: students can change what their notebook carries
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


def packed(cells: Iterable[tuple[str, str]]) -> str:
    """(kind, source) of every cell, in one line of text."""
    return base64.b85encode(zlib.compress(json.dumps(list(cells)).encode(), 9)).decode()


def unpacked(text: object) -> list[tuple[str, str]]:
    """What :func:`packed` was given; [] where this is something else, or too large."""
    try:
        unpacker = zlib.decompressobj()
        cells = json.loads(unpacker.decompress(base64.b85decode(str(text)), MAX_BYTES))
        return [(str(kind), str(source)) for kind, source in cells]
    except (ValueError, TypeError, zlib.error):
        return []


@lru_cache(maxsize=1024)
def asked(source: str) -> tuple[str, ...]:
    """The names that a code cell of a handout asks for, in its order."""
    return tuple(
        name
        for statement in parse([source], [])
        if asking(statement.node)
        for name in sorted(statement.binds)
    )


@lru_cache(maxsize=1024)
def answered(source: str) -> frozenset[str]:
    """The names that a code cell binds other than as a handout's placeholder."""
    return frozenset(
        name
        for statement in parse([source], [])
        if not asking(statement.node)
        for name in statement.binds
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
