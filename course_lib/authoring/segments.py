"""A notebook's code cell taken apart: its top-level statements with their comments, and what of them is the handout's.

A student notebook carries the hashes of what was handed out (:func:`marks`), so that later, without the old handout, it can
be said of every piece whether the student wrote it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from course_lib.authoring.source import parsed, python, syntax_error
from course_lib.worker.cells import scope

_NUMBER = re.compile(r'(NotImplementedError\(")\d+\.\d+ ')
_ASKS = "write this"  # in the message of a handout's NotImplementedError


@dataclass(frozen=True)
class Segment:
    """One top-level statement (or several on one line) with the comments above it; at the end of a cell comments alone.

    Attributes:
        text: its lines, without blank ones round it.
        names: what it binds.
        asks: is it the handout's placeholder for an answer?
        node: the statement, or None where there is none or more than one. first: the line of the cell that ``text`` begins on.
    """

    text: str
    names: frozenset[str]
    asks: bool
    node: ast.stmt | None
    first: int
    blank: int  # blank lines above it

    @property
    def defines(self) -> bool:
        """Is it a function or a class?"""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


@dataclass(frozen=True)
class Parts:
    """A function as blocks of lines: comments above it, decorators and signature, docstring, and what it does."""

    lead: str
    head: str
    doc: str
    body: str


@lru_cache(maxsize=1024)
def segments(source: str) -> tuple[Segment, ...] | None:
    """The segments of a code cell, which have all of its lines but blank ones; None where it cannot be taken apart."""
    if source.lstrip().startswith("%%") or syntax_error(source) is not None:
        return None
    lines = source.split("\n")
    try:
        tree = parsed(source)
        if len(python(source).rstrip("\n").split("\n")) > len(lines):
            return None  # a magic that became several lines: numbers mean something else then
        found: list[Segment] = []
        done = 0
        for group in _by_line(tree.body):
            end = max(node.end_lineno or node.lineno for node in group)
            names = frozenset(name for node in group for name in scope(node)[0])
            asks = any(asking(node) for node in group)
            found.append(_segment(lines, done, end, names, asks, group[0] if len(group) == 1 else None))
            done = end
    except (RecursionError, ValueError, SyntaxError, MemoryError):
        return None
    if any(line.strip() for line in lines[done:]):
        found.append(_segment(lines, done, len(lines), frozenset(), False, None))
    return tuple(found)


def _by_line(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    groups: list[list[ast.stmt]] = []
    for node in body:
        if groups and node.lineno <= (groups[-1][-1].end_lineno or 0):
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _segment(
    lines: list[str], begin: int, end: int, names: frozenset[str], asks: bool, node: ast.stmt | None
) -> Segment:
    first = begin
    while first < end - 1 and not lines[first].strip():
        first += 1
    while end > first + 1 and not lines[end - 1].strip():
        end -= 1
    return Segment("\n".join(lines[first:end]), names, asks, node, first + 1, first - begin)


def asking(node: ast.stmt) -> bool:
    """Does the handout ask for something here: ``raise NotImplementedError("1.4 f: write this function")``, or ``name = ...``?"""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return isinstance(node.value, ast.Constant) and node.value.value is ...
    return any(
        isinstance(inner, ast.Raise)
        and isinstance(inner.exc, ast.Call)
        and getattr(inner.exc.func, "id", "") == "NotImplementedError"
        and any(isinstance(a, ast.Constant) and _ASKS in str(a.value) for a in inner.exc.args)
        for inner in ast.walk(node)
    )


def bound(source: str) -> frozenset[str]:
    """The names that a code cell binds other than as a handout's placeholder; a cell magic's own line is left out."""
    if source.lstrip().startswith("%%"):
        source = source.lstrip().partition("\n")[2]
    return frozenset(name for piece in segments(source) or () if not piece.asks for name in piece.names)


def parts(piece: Segment) -> Parts | None:
    """A function's blocks; None for anything else, and where they share a line."""
    node = piece.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    lines = piece.text.split("\n")
    start = min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) - piece.first
    first = node.body[0]
    cut = end = first.lineno - piece.first
    rest = node.body
    if ast.get_docstring(node, clean=False) is not None:
        end = (first.end_lineno or 0) - piece.first + 1
        rest = node.body[1:]
    else:
        while cut > start + 1 and (not lines[cut - 1].strip() or lines[cut - 1].lstrip().startswith("#")):
            cut = end = cut - 1
    if cut <= node.lineno - piece.first or (rest and rest[0].lineno - piece.first < end):
        return None
    return Parts(*("\n".join(block) for block in (lines[:start], lines[start:cut], lines[cut:end], lines[end:])))


def mark(text: str, kind: str = "") -> str:
    """The hash of a piece of a handout; blank lines, spaces at the ends of lines and a placeholder's number do not count."""
    said = "\n".join(_NUMBER.sub(r"\1", line.rstrip()) for line in text.split("\n") if line.strip())
    return hashlib.sha256(f"{kind}\n{said}".encode()).hexdigest()[:10]


def marks(cells: Iterable[tuple[str, str]]) -> str:
    """The hashes of everything in a handout that may have to be told from a student's text, in one line.

    Args:
        cells: (kind, source) of every cell.
    """
    found: dict[str, None] = {}
    for kind, source in cells:
        found[mark(source, kind)] = None
        pieces = segments(source) if kind == "code" else None
        if pieces and any(piece.asks for piece in pieces):
            for piece in pieces:
                found[mark(piece.text)] = None
                if split := parts(piece):
                    found |= {mark(block): None for block in (split.lead, split.head, split.doc)}
    return " ".join(found)


def cell_id(lab: str, kind: str, source: str, time: int) -> str:
    """The id of a handout's cell: of its text, and of how many cells up to it have the same text."""
    return hashlib.sha256(f"{lab} {kind} {source} {time}".encode()).hexdigest()[:16]
