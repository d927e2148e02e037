"""The attacks: what each hands in and what it may get. One file each in ``labNN/``;
those that are no Python are made here.

An attack in Python is handed in behind the lab's solution, whose functions it takes the
place of. It knows where things are: ahead of it stands a cell with ``COURSE``,
``SUBMISSIONS`` and ``REPORT`` (folders), ``GRADER`` (its process), ``PORT`` (a listener
on this machine) and ``MARK`` (a word for the names of the files that it leaves). Its
first lines say what must come of it:

``# earns 0 of 1.1 · status graded · message: "ended its process"`` exactly so many
    points of 1.1, and those of every other question; a failure of 1.1 has the words in
    it. ``nothing`` stands for 0 of every question, ``all`` for full marks: an attack on
    others, whose own answers are right.
``# needs a sandbox · on every layer · handed in 4 times`` left out where only a sandbox could
    stop it and there is none; graded behind the weaker layers, too; so many copies.

An attack on a sandbox gives the right answer where it got through: points tell.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HEADER = re.compile(
    r"# earns (?:(?P<all>all)|(?P<nothing>nothing)|(?P<points>[\d.]+) of (?P<question>\d+\.\d+))"
    r'(?: · status (?P<status>\w+) · message: "(?P<message>.*)")?$'
)


@dataclass(frozen=True)
class Attack:
    """One hostile submission in Python, and what its header promises.

    Attributes:
        question: the one it attacks; "" where it attacks all or none.
        points: what it may earn of that; None for full marks.
        needs_sandbox: can only a sandbox stop it? everywhere: is it graded behind every layer?
    """

    path: Path
    question: str
    points: float | None
    status: str
    message: str
    needs_sandbox: bool
    everywhere: bool
    times: int

    @property
    def lab(self) -> str:
        return self.path.parent.name

    @property
    def ids(self) -> list[str]:
        """What its copies are handed in as."""
        return (
            [f"{self.path.stem}-{n}" for n in range(self.times)]
            if self.times > 1
            else [self.path.stem]
        )


def attacks() -> list[Attack]:
    """All of them, by lab and name.

    Raises:
        ValueError: if a header does not say what must come of the attack, or no
            sentence says what it tries.
    """
    return [_read(path) for path in sorted(HERE.glob("lab*/*.py"))]


def _read(path: Path) -> Attack:
    first, *lines = path.read_text().splitlines()
    match = HEADER.match(first)
    if not match or not (match["all"] or match["status"]):
        raise ValueError(
            f"{path.name} begins with {first!r}: it should say what it earns, its status and message"
        )
    flags = lines[0].removeprefix("# ").split(" · ")
    known = {"needs a sandbox", "on every layer"}
    said = [f for f in flags if f in known or re.fullmatch(r"handed in \d+ times", f)]
    if said and said != flags:
        raise ValueError(
            f"{path.name}, line 2: {set(flags) - set(said)} is none of {known}, 'handed in N times'"
        )
    if not lines[bool(said)].startswith("# "):
        raise ValueError(f"{path.name} should say in a comment what it tries")
    points = None if match["all"] else float(match["points"] or 0)
    times = next((int(f.split()[2]) for f in said if f.startswith("handed in")), 1)
    return Attack(
        path, match["question"] or "", points, match["status"] or "graded", match["message"] or "",
        "needs a sandbox" in said, "on every layer" in said, times,
    )  # fmt: skip


# --- honest submissions ---------------------------------------------------------------


def solution(lab: str) -> list[str]:
    """The code cells of a lab's solution."""
    source = next((ROOT / "solutions").glob(f"{lab}_*.py"))
    return [c.source for c in jupytext.read(source).cells if c.cell_type == "code"]


def handout(lab: str) -> list[str]:
    """The code cells of the notebook that students get."""
    book = nbformat.read(next((ROOT / "labs").glob(f"{lab}_*.ipynb")), as_version=4)
    return [c.source for c in book.cells if c.cell_type == "code"]


def half(lab: str) -> list[str]:
    """The handout with what the solution writes in its first half: the questions up to
    N.4.
    """
    from course_lib.labs import load

    questions = list(load(lab).questions.items())[:4]
    names = {name for _, asked in questions for name in asked.names}
    answered = [
        c
        for c in solution(lab)
        if names & set(re.findall(r"^(?:def |class )?(\w+)(?:\(|:| =)", c, re.MULTILINE))
    ]
    return [*handout(lab), *answered]


def notebook(cells: Iterable[str]) -> str:
    """The text of a notebook with these code cells."""
    return nbformat.writes(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    )


# --- submissions that are no Python ---------------------------------------------------

LAB = "lab00"  # which these are handed in for


@dataclass(frozen=True)
class Expected:
    """What must come of a submission: full marks or none, its status, words in what the
    student is told.
    """

    full: bool
    status: str = "graded"
    message: str = ""


READ = Expected(True)


def _no(message: str) -> Expected:
    return Expected(False, "pending", message)


def paths_in_zips(folder: Path, right: list[str]) -> dict[str, Expected]:
    """Names that lead out of the place where a zip is unpacked."""
    names = {
        "zip-up": "../../../escaped_lab00.ipynb",
        "zip-absolute": str(folder / "escaped" / "lab00.ipynb"),
        "zip-windows": "C:\\..\\escaped_lab00.ipynb",
        "zip-deep": "a/" * 400 + "lab00.ipynb",
        "zip-odd": "\x1b[2J<script>\n=cmd()lab00.ipynb",
    }
    for id, name in names.items():
        with zipfile.ZipFile(folder / f"{id}.zip", "w") as archive:
            archive.writestr(name, notebook(right))
    return dict.fromkeys(names, READ)


def links_in_a_zip(folder: Path, right: list[str]) -> dict[str, Expected]:
    """A link to another student's notebook, packed as a link."""
    with zipfile.ZipFile(folder / "zip-link.zip", "w") as archive:
        entry = zipfile.ZipInfo("lab00.ipynb")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "../aaa-solution.ipynb")
    return {"zip-link": _no("link")}


def zip_bombs(folder: Path, right: list[str]) -> dict[str, Expected]:
    """Small zips of what is large when unpacked; and one that says it is smaller than
    it is.
    """
    bomb = zipfile.ZipFile(folder / "zip-bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with bomb, bomb.open("lab00.ipynb", "w", force_zip64=True) as file:
        for _ in range(220):
            file.write(b" " * (1 << 20))
    with zipfile.ZipFile(folder / "zip-crowd.zip", "w") as archive:
        for number in range(20_000):
            archive.writestr(f"{number}.txt", "")
        archive.writestr("lab00.ipynb", notebook(right))
    liar = folder / "zip-liar.zip"
    with zipfile.ZipFile(liar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lab00.ipynb", notebook(right))
    data = bytearray(liar.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 100)  # the size when unpacked
    liar.write_bytes(data)
    with zipfile.ZipFile(folder / "zip-in-zip.zip", "w") as archive:
        archive.write(folder / "zip-crowd.zip", "lab00.zip")
    small = zipfile.ZipFile(folder / "zip-lists.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with small as archive:  # 60 MB of JSON that would be gigabytes of empty lists
        archive.writestr("lab00.ipynb", b'{"cells": [' + b"[]," * (20 << 20) + b"[]]}")
    return {
        "zip-bomb": _no("larger than"),
        "zip-crowd": READ,
        "zip-liar": _no(""),
        "zip-in-zip": READ,
        "zip-lists": _no(""),
    }


def large_notebooks(folder: Path, right: list[str]) -> dict[str, Expected]:
    """Outputs of fifty megabytes, a file of two hundred and more, a hundred thousand
    cells.
    """
    book = json.loads(notebook(right))
    image = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "A" * (50 << 20)}}
    text = {
        "output_type": "stream",
        "name": "stdout",
        "text": ["<script>alert(1)</script>\n"] * 100_000,
    }
    book["cells"][0]["outputs"] = [image, text]
    (folder / "large-outputs.ipynb").write_text(json.dumps(book))
    with open(folder / "large-file.ipynb", "wb") as file:
        file.truncate(220 << 20)  # takes no room on the disk
    book = json.loads(notebook(right))
    empty = json.loads(notebook([""]))["cells"][0]
    book["cells"] += [{**empty, "id": str(n)} for n in range(100_000)]
    (folder / "large-crowd.ipynb").write_text(json.dumps(book))
    (folder / "large-blank.ipynb").write_text(notebook(["\n" * 200_000, *right]))
    return {
        "large-outputs": READ,
        "large-file": _no("larger than"),
        "large-crowd": READ,
        "large-blank": READ,
    }


def hostile_names(folder: Path, right: list[str]) -> dict[str, Expected]:
    """File names for the spreadsheet, the web page, the terminal and the file
    system.
    """
    names = [
        "=cmd|' ⁄C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "two\nlines,\"quoted\";x", "=HYPERLINK(\"x\")",
        "<script>alert(1)<⁄script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}{% include 'x' %}", "&lt;b&gt;",
        "\x1b[31mred\x1b[0m", "\u202egnp.exe", "CON", "lab00..", "a b", "a_b", "é" * 100, "'; DROP TABLE grades; --", "%s%n$(id)`id`",
    ]  # fmt: skip
    for name in names:
        (folder / f"{name}.ipynb").write_text(notebook(right))
    raw = b"not-utf8-\xff\xfe.ipynb"
    try:
        Path(os.path.join(os.fsencode(folder), raw).decode("utf-8", "surrogateescape")).write_text(
            notebook(right)
        )
        names.append("not-utf8-\\xff\\xfe")
    except OSError:  # macOS keeps no such names
        pass
    return dict.fromkeys(names, READ)


def odd_files(folder: Path, right: list[str]) -> dict[str, Expected]:
    """What is no file, or another's: pipes, devices, links. The grader neither waits
    for them nor follows them.
    """
    made = {}
    for name in ("pipe.ipynb", "pipe.zip", "pipe-inside/lab00.ipynb"):
        (folder / name).parent.mkdir(exist_ok=True)
        os.mkfifo(folder / name)
    made |= {"pipe": _no(""), "pipe~": _no(""), "pipe-inside": _no("")}
    try:
        os.mknod(folder / "device.ipynb", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
        made["device"] = _no("")
    except OSError:  # root's alone
        pass
    links = {
        "link.ipynb": "aaa-solution.ipynb",
        "link-to-zero.ipynb": "/dev/zero",
        "link-to-nothing.ipynb": "nowhere",
        "link-to-itself.ipynb": "link-to-itself.ipynb",
        "link-to-etc": "/etc",
        "link-to-another": "deep",
        "link-inside/lab00.ipynb": "../aaa-solution.ipynb",
        "link-of-a-folder/work": "../deep",
    }
    for name, target in links.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target)
        made[Path(name).parts[0].removesuffix(".ipynb")] = _no("")
    for id, depth in (("deep", 8), ("deeper", 60)):
        inside = folder / id / "/".join(["again"] * depth)
        inside.mkdir(parents=True)
        (inside / "lab00.ipynb").write_text(notebook(right))
    (folder / "folder.ipynb" / "folder.zip").mkdir(parents=True)
    return {**made, "deep": READ, "deeper": READ, "folder": _no("no notebook")}


def odd_json(folder: Path, right: list[str]) -> dict[str, Expected]:
    """Text that is no JSON, JSON that is no notebook, and notebooks as nobody writes
    them.
    """
    book = json.loads(notebook(right))
    cells = book["cells"]
    texts: dict[str, tuple[bytes, Expected]] = {
        "json-not-utf8": (notebook(right).encode().replace(b"def ", b"d\xff\xfef "), _no("no readable notebook")),
        "json-utf16": (notebook(right).encode("utf-16"), READ),
        "json-nul": (b"\0" * 1000, _no("no readable notebook")),
        "json-deep": (b'{"cells":' + b"[" * 1_000_000, _no("JSON")),
        "json-deep-objects": (b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000, _no("JSON")),
        "json-deep-metadata": (_with(book, metadata=_nested(100)), READ),
        "json-huge-number": (notebook(right).encode().replace(b'"nbformat": 4', b'"nbformat": ' + b"4" * 100_000), _no("no readable notebook")),
        "json-infinite": (_with(book, nbformat=float("inf")), READ),
        "json-old": (_version_3(right), _no("no notebook")),
        "json-older": (_with({"worksheets": 3}, nbformat=-1), _no("no notebook")),
        "json-scalar": (b'"a notebook"', _no("no notebook")),
        "json-cells-no-list": (_with(book, cells={"a": cells}), _no("no notebook")),
        "json-cells-odd": (_with(book, cells=[*cells, {"cell_type": [], "source": {}}]), READ),
        "json-cell-no-dict": (_with(book, cells=[*cells, None]), READ),
        "json-surrogates": (_with(book, cells=[_code("x = '\ud800\udfff\udc00'"), *cells]), READ),
        "json-twice": (notebook(right).encode().replace(b'"cells"', b'"cells": 3, "cells"', 1), READ),
        "code-nul": (_with(book, cells=[*cells, _code("x = 1\0")]), READ),
        "code-deep": (_with(book, cells=[*cells, _code("(" * 50_000), _code("x = " + "-" * 100_000 + "1")]), READ),
        "code-encoding": (_with(book, cells=[*cells, _code("# -*- coding: rot13 -*-\nqrs s(): cnff")]), READ),
        "code-megabytes": (_with(book, cells=[*cells, _code("x = '" + "x" * (3 << 20) + "'")]), _no("MB of code")),
    }  # fmt: skip
    for id, (text, _) in texts.items():
        (folder / f"{id}.ipynb").write_bytes(text)
    return {id: expected for id, (_, expected) in texts.items()}


def _with(book: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({**book, **fields}).encode()


def _code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": source,
    }


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = {"a": value}
    return value


def _version_3(right: list[str]) -> bytes:
    cells = [
        {"cell_type": "code", "language": "python", "input": c, "outputs": [], "metadata": {}}
        for c in right
    ]
    return _with(
        {"nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}, nbformat=3
    )


MAKERS = (
    paths_in_zips,
    links_in_a_zip,
    zip_bombs,
    large_notebooks,
    hostile_names,
    odd_files,
    odd_json,
)
