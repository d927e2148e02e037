"""Of which lab a notebook is, and of which release: it says so itself, or the names do
that it defines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from course_lib import labs
from course_lib.paths import course_root

# A name that a line defines, "def f(", "class C", "x = 1", "x: int = 1": one look a
# line, whatever the rest of it is. The text is not parsed here, but in the process that
# may be ended.
_DEFINED = re.compile(
    r"^[ \t]{0,40}(?:(?:async )?def |class )[ ]?(\w{1,99})|^(\w{1,99}) ?(?:=(?!=)|:"
    r" ?[\w.]{1,40} ?=)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Origin:
    """What a notebook's metadata say: "lab01", and the hash that ``course build`` gives
    a hand-out; "" where they say nothing.
    """

    lab: str = ""
    release: str = ""

    def __str__(self) -> str:
        return f"{self.lab} (release {self.release})" if self.release else self.lab


def of(notebook: dict[str, Any]) -> Origin:
    """The lab and release that a notebook, as its JSON has it, names."""
    course = _metadata(notebook)
    lab, release = str(course.get("lab", "")), str(course.get("version", ""))
    return Origin(
        lab if re.fullmatch(r"lab\d\d", lab) else "",
        release if re.fullmatch(r"[0-9a-f]{6,64}", release) else "",
    )


def defined(cells: Sequence[str]) -> set[str]:
    """The names that lines of code define, as text: what is in a string counts, too."""
    return {name for cell in cells for both in _DEFINED.findall(cell) for name in both if name}


def answers(lab: str, cells: Sequence[str]) -> bool:
    """Is something defined that this lab alone asks for?"""
    return bool(defined(cells) & _graded().get(lab, set()))


def another(lab: str, cells: Sequence[str], origin: Origin) -> str:
    """Why this is no submission of ``lab``, in a sentence; "" where it may be one.

    Only where nothing is defined that the lab asks for: who carried right answers into
    the notebook of another lab has answered.
    """
    names = defined(cells)
    graded = _graded()
    if lab not in graded or answers(lab, cells):
        return ""
    found = Counter({other: len(names & asked) for other, asked in graded.items() if other != lab})
    best, count = found.most_common(1)[0] if found else ("", 0)
    if origin.lab in ("", lab) and count < 2:
        return ""
    it = origin if origin.lab not in ("", lab) else Origin(best)
    return (
        f"this is a notebook of {it} and holds nothing that {lab} asks for: hand in the one of"
        f" {lab}"
    )


def is_unchanged(lab: str, cells: Sequence[str]) -> bool:
    """Does a notebook hold no code beyond the handout's?

    Lines are compared, wherever they stand; comments, settings that the handout sets as
    well, and calls that answer nothing (``check``, ``skip``, ``print``) do not count.
    False where no handout is known.
    """
    handout = sources(read_handout(lab))
    return bool(handout) and not _lines(cells) - _lines(handout)


_SETTING = re.compile(r"[A-Z][A-Z_]* *=|(?:check|skip|print|display)\(")


def _lines(cells: Sequence[str]) -> Counter[str]:
    """The lines of code, each with how often it stands there."""
    lines = (line.partition("#")[0].strip() for cell in cells for line in cell.splitlines())
    return Counter(line for line in lines if line and not _SETTING.match(line))


def read_handout(lab: str) -> dict[str, Any]:
    """A lab's present handout, as its JSON has it; {} outside a course."""
    root = course_root()
    paths = sorted((root / "labs").glob(f"{lab}_*.ipynb")) if root else []
    return next((_read(path, path.stat().st_mtime_ns) for path in paths), {})


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read


def sources(notebook: dict[str, Any], kind: str = "code") -> list[str]:
    """The text of a handout's cells of one kind."""
    cells = notebook.get("cells", [])
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def _metadata(notebook: dict[str, Any]) -> dict[str, Any]:
    """What the course has written into a notebook's metadata."""
    metadata = notebook.get("metadata")
    course = metadata.get("course") if isinstance(metadata, dict) else None
    return course if isinstance(course, dict) else {}


def remark(lab: str, origin: Origin, released: str) -> str:
    """What is odd about where the notebook comes from, in a sentence; "" where nothing
    is.

    Args:
        released: the release that the course has now, "" where that is not known.
    """
    if origin.lab not in ("", lab):
        return f"by its metadata this is a notebook of {origin}, but it answers questions of {lab}"
    if origin.lab and origin.release and released and origin.release != released:
        return (
            f"this notebook is of release {origin.release} of {lab}, and the course now has"
            f" {released}"
        )
    return ""


def released(lab: str) -> str:
    """The release of a lab's notebook that the course has now; "" outside a course."""
    return of(read_handout(lab)).release


@lru_cache(maxsize=1)
def _graded() -> dict[str, set[str]]:
    """By lab, the names that it alone asks for."""
    asked = {lab: set(labs.load(lab).graded) for lab in labs.available()}
    times = Counter(name for names in asked.values() for name in names)
    return {lab: {name for name in names if times[name] == 1} for lab, names in asked.items()}
