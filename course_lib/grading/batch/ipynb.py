"""Reads the code out of a notebook that nobody has checked, in time and memory that its
length bounds.

What Python builds from JSON can be a hundred times larger than the text, and is built
before anybody can look at it. So the text is measured first: how many values it has,
and how deep they lie. Only what stands outside of strings counts, for a printed output
may hold any number of brackets.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

# in one notebook, outputs included; a drawing of a hundred thousand points has 200,000
MAX_VALUES = 2_000_000
MAX_DEPTH = 200  # of values in values; a widget's state has about ten
# bytes of code in one notebook, as JSON: what goes to the worker in one piece
# (frames.MAX_HEADER)
MAX_CODE = 1_000_000
_STEP = np.zeros(256, np.int8)
_STEP[list(b"[{")], _STEP[list(b"]}")] = 1, -1
_OTHERS = bytes(set(range(256)) - set(b'"[]{},'))
_PIECE = 1 << 20


class Unreadable(Exception):
    """Why a file cannot be read as a notebook, in a sentence for the one who handed it
    in.
    """


def read(data: bytes) -> dict[str, Any]:
    """The notebook as JSON has it.

    Raises:
        Unreadable: if it is no JSON object, or holds more than a notebook does.
    """
    data = _as_utf8(data)
    values, depth = measure(data)
    if values > MAX_VALUES:
        raise Unreadable(
            f"the notebook's JSON holds {values / 1e6:.1f} millions of values: clear its outputs"
            " and hand it in again"
        )
    if depth > MAX_DEPTH:
        raise Unreadable(
            f"the notebook's JSON is nested {depth} deep: was it made by a program? Save it in"
            " JupyterLab"
        )
    try:
        raw = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(_not_json(data, error)) from None
    if not isinstance(raw, dict):
        raise Unreadable(f"the file is JSON but no notebook: it holds a {type(raw).__name__}")
    return raw


def is_notebook(head: bytes, data: Callable[[], bytes]) -> bool:
    """Does a file hold a notebook, whatever its name?

    Args:
        head: its first bytes. data: reads it all, where these may be a notebook's.
    """
    utf16 = head.startswith(_UTF16)
    if not utf16 and not head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
        return False
    try:
        raw = read(data())
    except Unreadable:
        return False
    return isinstance(raw.get("cells", raw.get("worksheets")), list)


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OTHERWISE = (  # how a file begins that is no notebook: what it is, what to do
    (rb"$", "the file is empty: save the notebook, and hand it in again"),
    (
        rb"(?i)<(?:!doctype|html|\?xml|head|body)",
        "the file is a web page, and not the notebook itself: choose File > Download in"
        " JupyterLab, and hand in what that gives",
    ),
    (
        rb"version https://git-lfs",
        "the file is a pointer of Git LFS, and not the notebook itself: run `git lfs pull`, and"
        " hand in the notebook",
    ),
    (rb"%PDF", "the file is a PDF, and not the notebook itself: hand in the .ipynb file"),
    (rb"\{\\rtf", "the file is a text of a word processor (RTF): hand in the .ipynb file"),
)


def _not_json(data: bytes, error: Exception) -> str:
    """Why a file is no notebook, and what to do."""
    begins = data.removeprefix(codecs.BOM_UTF8).lstrip()
    for pattern, sentence in _OTHERWISE:
        if re.match(pattern, begins):
            return sentence
    if re.search(rb"^<<<<<<< ", data, re.MULTILINE) and re.search(
        rb"^>>>>>>> ", data, re.MULTILINE
    ):
        return (
            "the notebook holds the marks of a merge conflict (<<<<<<< and >>>>>>>): resolve it in"
            " Git, open the notebook in JupyterLab, and hand it in again"
        )
    if not begins.startswith(b"{"):
        return "the file holds no notebook, but some other text or data: hand in the .ipynb file"
    at_end = isinstance(error, json.JSONDecodeError) and error.doc[error.pos :].strip() == ""
    cut = at_end or "Unterminated string" in str(error)
    return f"the notebook is no readable JSON ({str(error)[:120]}): " + (
        "it is cut off, so hand it in again" if cut else "open and save it in JupyterLab"
    )


def _as_utf8(data: bytes) -> bytes:
    """Text in UTF-16 (PowerShell's and some editors' way to save) as UTF-8."""
    if not data.startswith(_UTF16):
        return data
    return data.decode("utf-16", "replace").encode()


def measure(data: bytes) -> tuple[int, int]:
    """How many values JSON holds at most, and how deep they lie, without building any.

    As far as the text is JSON the two are right, and where it ceases to be, the parser
    stops: so they bound what it builds. A streaming parser (ijson 3.6 on yajl) takes a
    hundred times as long for one long string, and stops being linear there.
    """
    # In a row of backslashes each first one makes the next a plain sign; one that is
    # left does so to a quote.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    # of an output of fifty megabytes next to nothing is left
    marks = plain.translate(None, _OTHERS)
    values = depth = deepest = inside = 0
    for at in range(0, len(marks), _PIECE):
        piece = np.frombuffer(marks, np.uint8, min(_PIECE, len(marks) - at), at)
        quote = piece == ord('"')
        # in a string, or at the quote that begins it
        odd = (np.cumsum(quote, dtype=np.int32) + inside) & 1
        inside = int(odd[-1])
        piece = piece[(odd == 0) & ~quote]
        level = np.cumsum(_STEP[piece], dtype=np.int32) + depth
        if len(level):
            depth, deepest = int(level[-1]), max(deepest, int(np.max(level)))
            values += int(np.count_nonzero((piece == ord(",")) | (_STEP[piece] == 1)))
    return values + 1, deepest


def code(notebook: dict[str, Any]) -> list[str]:
    """The source of its code cells; those before version 4 lie in worksheets.

    Raises:
        Unreadable: if it has no cells, or more code than goes to the worker.
    """
    if not isinstance(notebook.get("nbformat", 4), int):
        raise Unreadable(
            "the file is JSON but no notebook: the version in it, nbformat, is no whole number"
        )
    try:
        sheets = notebook.get("worksheets", [notebook])
        cells = [
            _source(cell)
            for sheet in sheets
            for cell in sheet["cells"]
            if cell.get("cell_type") == "code"
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"the file is JSON but no notebook ({type(error).__name__})") from None
    size = sum(map(len, cells))
    if size <= MAX_CODE:  # else it is too much however it is written
        size = len(json.dumps(cells))
    if size > MAX_CODE:
        why = (
            f"the notebook holds {size / 1e6:.1f} MB of code: a lab's is well below"
            f" {MAX_CODE / 1e6:.0f} MB"
        )
        raise Unreadable(
            f"{why}. Was data pasted into a cell? Take it out and hand the notebook in again"
        )
    return cells


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return text("".join(map(str, source)) if isinstance(source, list) else str(source))


def text(name: str | bytes) -> str:
    """Text that can be written as UTF-8, whatever bytes a file's name or a string in
    JSON was made of.
    """
    if isinstance(name, bytes):
        return name.decode("utf-8", "backslashreplace")
    return name.encode("utf-8", "replace").decode()
