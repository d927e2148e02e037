"""A student's work carried into a corrected release of its lab: the release's text, the student's answers, nothing lost.

What a student wrote is told from the handout by the ids of cells (hashes of their text) and by the hashes that a student
notebook carries (:mod:`course_lib.authoring.segments`); where both are gone, by comparing with the release, and then
whatever differs counts as the student's.

- A changed cell that the release left alone goes over whole.
- Where the release changed it too, answers go over by name into its new text: functions, classes, ``answer_…``,
  ``prediction_…``, with the imports, helpers and comments beside them. A function keeps its body; its signature and docstring
  become the release's unless the student changed them.
- Other cells that both changed stand beside each other, the student's first, so that the release's definitions hold.
- Cells that the student added stay after the same cell as before.
- What has no place any more stands at the end under a heading.
"""

from __future__ import annotations

import ast
import copy
import json
import re
import shutil
import uuid
import zipfile
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from course_lib import files
from course_lib.authoring.segments import Segment, bound, cell_id, mark, parts, segments
from course_lib.authoring.source import HEADING, QUESTION
from course_lib.paths import course_root
from course_lib.worker.cells import unwritten

HEADING_AT_END = "## From your earlier notebook"
_END = "What follows had no place in this release of the lab. Move what you still need."
_BOTH = "*From your earlier notebook: the release changed this cell too. Yours comes first, the release's follows; compare them.*"
_ALIKE = 0.5  # share of words in the same order from which on a cell counts as an earlier form of another
_NOT_OURS = {"nbgrader", "id", "outputId", "colab", "execution", "scrolled"}  # metadata that belong to a place or a run


@dataclass(frozen=True)
class Carried:
    """One thing that was carried over: what it is, the question it went to ("" outside of any), and how it stands there."""

    what: str
    question: str
    how: str


@dataclass(frozen=True)
class Updated:
    """What :func:`update` did.

    Attributes:
        path: the notebook written. backup: the copy of what was there before, or None.
        carried: what went over, in the student's order. current: was it of this release already? Nothing was written then.
    """

    path: Path
    backup: Path | None
    carried: list[Carried]
    current: bool


WHOLE = "as you wrote it"
MERGED = "with the release's new text round it"
BOTH = "beside the release's new text: compare them"
OWN = "your own cell"
END = "at the end: the release has no place for it"


def update(notebook: Path, release: Path | None = None, out: Path | None = None) -> Updated:
    """Carry what a student wrote in ``notebook`` into the same lab of ``release``.

    Outputs are left out: they came from the earlier text. A file that would be replaced is copied beside first, as
    ``….before-update.ipynb``.

    Args:
        release: a release folder, its zip, or the one notebook; by default the course folder round the working folder.
        out: the file or folder to write; by default ``notebook`` itself.

    Raises:
        FileNotFoundError: if the notebook, the release or the lab in it is not there.
        ValueError: if a file is no notebook, is of another lab, or the release's notebook has been worked in.
    """
    notebook = Path(notebook)
    old = _read(notebook)
    if release is None:
        release = course_root()
        if release is None:
            raise FileNotFoundError("which release? Give its folder: course update NOTEBOOK --release FOLDER")
    new = _of_release(Path(release), _lab(old, notebook), notebook)
    target = notebook if out is None else out / notebook.name if out.is_dir() else out
    if _course(old).get("version") == new.metadata["course"]["version"]:
        return Updated(notebook, None, [], True)
    made, carried = merge(old, new)
    if [_said(cell) for cell in made.cells] == [_said(cell) for cell in old.cells]:
        return Updated(notebook, None, [], True)
    data = (_writes(made).rstrip("\n") + "\n").encode()
    backup = _back_up(target) if target.exists() else None
    files.put(target, data)
    return Updated(target, backup, carried, False)


def merge(old: Any, new: Any) -> tuple[Any, list[Carried]]:
    """The notebook ``new`` with what the student wrote in ``old``, both as nbformat reads them."""
    return _Merge(old, new).result()


@dataclass
class _Cell:
    """A cell of either notebook, taken apart as far as needed."""

    node: Any
    kind: str
    source: str
    id: str
    question: str = ""
    touched: bool = True  # does it hold anything that is not the handout's?
    home: int | None = None  # the release's cell that it is an earlier form of
    names: frozenset[str] = frozenset()  # bound, other than by placeholders
    asks: frozenset[str] = frozenset()  # bound by placeholders
    pieces: Sequence[Segment] | None = None
    before: str = field(default="")  # the source before questions were renumbered

    @property
    def handed(self) -> bool:
        """Has it the id of a handout's cell?"""
        return re.fullmatch("[0-9a-f]{16}", self.id) is not None

    def look(self) -> None:
        """Find out what it binds and asks for."""
        if self.kind == "code":
            self.pieces = segments(self.source)
            self.names = bound(self.source)
            self.asks = frozenset(n for piece in self.pieces or () if piece.asks for n in piece.names)
            if self.pieces is None and not self.names:  # it does not parse: by the looks of it
                self.asks = frozenset(re.findall(r"^(?:def |class )?\s*(\w+)\s*(?=[=(:])", self.source, re.M))


class _Merge:
    def __init__(self, old: Any, new: Any) -> None:
        self.new_notebook, self.old_notebook = new, old
        self.lab = new.metadata["course"]["lab"]
        self.known = set(str(_course(old).get("handout", "")).split())
        self.mine, self.theirs = _cells(old), _cells(new)
        texts = {mark(cell.source, cell.kind) for cell in self.theirs}
        for cell in self.mine:
            cell.touched = not self._handouts(cell, texts)
        number = int(self.lab[3:5])
        self.titles, mine_titles = _place(self.theirs, number), _place(self.mine, number)
        for cell in [*self.mine, *self.theirs]:
            cell.look()
        self.moved = _renumbered(self.mine, mine_titles, self.theirs, self.titles)
        for cell in self.mine:
            cell.before = cell.source
            if cell.kind == "code" and (source := _renumber(cell.source, self.moved)) != cell.source:
                cell.source = source
                cell.look()
        self.asked = {name: at for at, cell in reversed(list(enumerate(self.theirs))) for name in cell.asks}
        self._pair()

    def _handouts(self, cell: _Cell, texts: set[str]) -> bool:
        said = mark(cell.source, cell.kind)
        if said in self.known or said in texts or not (cell.source.strip() or cell.node.get("attachments")):
            return True
        return any(cell_id(self.lab, cell.kind, cell.source, time) == cell.id for time in range(1, 20))

    # Which cell of the release is each of the student's an earlier form of?

    def _pair(self) -> None:
        self.taken: dict[int, _Cell] = {}
        by_id = {cell.id: at for at, cell in enumerate(self.theirs)}
        for cell in sorted(self.mine, key=lambda cell: not cell.touched):  # of two with one id, the one worked in
            if cell.id in by_id and cell.source == cell.before and self.theirs[by_id[cell.id]].kind == cell.kind:
                self._take(cell, by_id[cell.id])
        by_text: dict[str, list[int]] = {}
        for at, other in enumerate(self.theirs):
            by_text.setdefault(mark(other.source, other.kind), []).append(at)
        for cell in self.mine:
            for at in by_text.get(mark(cell.source, cell.kind), []):
                self._take(cell, at)
        for at in sorted(set(self.asked.values())):
            self._pair_by_name(at)
        ids = any(cell.handed for cell in self.mine)
        for at, cell in enumerate(self.mine):
            if cell.home is None and (cell.handed or not ids or not cell.touched):
                near = [i for i in self._between(at) if i not in self.taken and self.theirs[i].kind == cell.kind]
                alike, best = max(((_alike(cell.before, self.theirs[i].source), -i) for i in near), default=(0.0, 0))
                if alike >= _ALIKE:
                    self._take(cell, -best)

    def _pair_by_name(self, at: int) -> None:
        """Find the cell that answers what the release's cell ``at`` asks: the handout's own before one that was added."""
        asked = self.theirs[at].asks
        found = [cell for cell in self.mine if cell.home is None and asked & (cell.names | cell.asks)]
        found = [cell for cell in found if cell.touched] or found
        found = [cell for cell in found if cell.handed] or found
        if len(found) > 1:  # the last definition is the one that counts, so none is moved without need
            found.sort(key=lambda cell: _alike(cell.source, self.theirs[at].source))
            found = [cell for cell in found[-1:] if _alike(cell.source, self.theirs[at].source) >= _ALIKE]
        for cell in found:
            self._take(cell, at)

    def _take(self, cell: _Cell, at: int) -> None:
        if cell.home is None and at not in self.taken:
            cell.home = at
            self.taken[at] = cell

    def _between(self, at: int) -> range:
        """The release's cells between the neighbours of the student's cell ``at``."""
        low = max((c.home for c in self.mine[:at] if c.home is not None), default=-1)
        high = min((c.home for c in self.mine[at + 1 :] if c.home is not None), default=len(self.theirs))
        return range(low + 1, high) if low < high else range(len(self.theirs))

    # The new notebook

    def result(self) -> tuple[Any, list[Carried]]:
        self.carried: list[Carried] = []
        after: dict[int, list[_Cell]] = {}  # the student's own cells by the cell they follow; -1: the top
        last = -1
        unmoved = _rising([cell.home for cell in self.mine if cell.home is not None])
        at_end = not self.taken
        end: list[_Cell] = []
        for cell in self.mine:
            if cell.home is not None:
                last = cell.home if cell.home in unmoved else last
            elif cell.source.startswith(HEADING_AT_END):  # of an update before this one
                at_end = True
            elif cell.touched:
                question = self.moved.get(cell.question, cell.question)
                if at_end or (question and question not in self.titles):
                    end.append(cell)
                else:
                    after.setdefault(last, []).append(cell)
        rows = {id(cell): self._row(cell, OWN, last) for last, cells in after.items() for cell in cells}
        rows |= {id(cell): Carried(_what(cell, self.asked), "", END) for cell in end}

        cells: list[Any] = [_own(cell) for cell in after.get(-1, [])]
        for at, theirs in enumerate(self.theirs):
            mine = self.taken.get(at)
            made = _copy(theirs)
            if mine is None or not mine.touched:
                cells.append(self._without_answered(made, at))
            else:
                extra, how = self._into(made, mine, theirs)
                rows[id(mine)] = self._row(mine, how, at)
                cells += [*extra, made if how == WHOLE else self._without_answered(made, at, own=bool(extra))]
            cells += [_own(cell) for cell in after.get(at, [])]
        if end:
            cells.append(_markdown(f"{HEADING_AT_END}\n\n{_END}"))
            cells += [_own(cell) for cell in end]
        self.carried = [rows[id(cell)] for cell in self.mine if id(cell) in rows]

        notebook = copy.deepcopy(self.new_notebook)
        notebook.cells = _unique(cells)
        for key, value in self.old_notebook.metadata.items():
            if key not in notebook.metadata and key not in ("widgets", "signature"):
                notebook.metadata[key] = copy.deepcopy(value)
        return notebook, self.carried

    def _row(self, cell: _Cell, how: str, at: int) -> Carried:
        question = self.theirs[at].question if at >= 0 else ""
        if cell.source != cell.before:
            how += ", renumbered from " + ", ".join(sorted(old for old in self.moved if _mentions(cell.before, old)))
        return Carried(_what(cell, self.asked), question, how)

    def _into(self, made: Any, mine: _Cell, theirs: _Cell) -> tuple[list[Any], str]:
        """Put the student's cell into ``made``, a copy of the release's; what is to stand before it, and how it stands there."""
        _add_metadata(made, mine.node)
        if mine.id == theirs.id:  # the release left this cell as it was
            made.source = mine.source
            if attachments := mine.node.get("attachments"):
                made.attachments = copy.deepcopy(attachments)
            return [], WHOLE
        if mine.pieces is not None and theirs.asks:
            made.source, clash = self._merged(mine.pieces, theirs.pieces or ())
            return [], BOTH if clash else MERGED
        return [_markdown(_BOTH), _own(mine)], BOTH

    def _merged(self, mine: Sequence[Segment], theirs: Sequence[Segment]) -> tuple[str, bool]:
        """The release's segments with the student's in their places; and whether the release and the student changed the same."""
        out: list[Segment | None] = list(theirs)
        used: set[int] = set()  # by id() of what stands in ``out`` for a segment of the student's
        handed = {mark(piece.text) for piece in theirs}
        clash = False
        at = 0  # where the next of the student's segments goes
        for piece in mine:
            said = mark(piece.text)
            spot = next(
                (i for i, t in enumerate(out) if t is not None and id(t) not in used and _stands_for(piece, t)), None
            )
            if said in self.known or said in handed:
                at = at if spot is None else spot + 1
                continue
            if spot is None:
                out.insert(at, piece)
                used.add(id(piece))
                at += 1
                continue
            other = out[spot]
            assert other is not None
            answer = other.asks and not _still_asks(piece)
            if answer:
                piece, beside = self._rebased(piece, other)
                out = [None if self._covered(t, other, piece, used) else t for t in out]
            else:
                beside = mark(other.text) not in self.known
            used.add(id(piece))
            if beside:  # both hold; what is an answer comes last, else the release's does
                clash = True
                used.add(id(other))
                out[spot : spot + 1] = [other, piece] if answer else [piece, other]
                at = spot + 2
            else:
                out[spot] = piece
                at = spot + 1
        return _joined([piece for piece in out if piece is not None]), clash

    @staticmethod
    def _covered(other: Segment | None, answered: Segment, piece: Segment, used: set[int]) -> bool:
        """Is it a further placeholder that the student's ``piece`` answers?"""
        return (
            other is not None
            and other is not answered
            and id(other) not in used
            and other.asks
            and bool(other.names)
            and other.names <= piece.names
        )

    def _rebased(self, mine: Segment, theirs: Segment) -> tuple[Segment, bool]:
        """The student's answer with what the release changed in its signature and docstring; and whether both changed them."""
        split, new = parts(mine), parts(theirs)
        if split is None or new is None:
            return mine, mine.defines and mark(theirs.text) not in self.known
        head = new.head if mark(split.head) in self.known else split.head
        doc = new.doc if mark(split.doc) in self.known or not split.doc else split.doc
        clash = mark(new.doc) not in self.known | {mark(doc)}
        clash |= mark(new.head) not in self.known | {mark(head)} and _arguments(mine) != _arguments(theirs)
        lead = new.lead if mark(split.lead) in self.known else split.lead
        return replace(mine, text="\n".join(block for block in (lead, head, doc, split.body) if block)), clash

    def _without_answered(self, made: Any, at: int, own: bool = True) -> Any:
        """The release's cell without placeholders of what the student answers in another cell: they would undo the answer.

        Args:
            own: has what the student made of this cell become another cell?
        """
        theirs = self.theirs[at]
        elsewhere = {n for c in self.mine if c.touched and (own or c.home != at) for n in c.names}
        pieces = segments(made.source) if theirs.asks & elsewhere else None
        if not pieces:
            return made
        here = {name for piece in pieces if not piece.asks for name in piece.names}
        gone = [p for p in pieces if p.asks and p.names and p.names <= elsewhere and not p.names & here]
        if gone:
            names = ", ".join(sorted({name for piece in gone for name in piece.names}))
            kept = _joined([piece for piece in pieces if piece not in gone])
            made.source = "\n\n".join(text for text in (f"# {names}: see your own cell", kept) if text)
        return made


def _stands_for(piece: Segment, other: Segment) -> bool:
    """Is ``other`` what the student's ``piece`` was, or answers?"""
    if not piece.names:
        return mark(piece.text) == mark(other.text)
    return piece.names == other.names or (other.asks and bool(piece.names & other.names))


def _still_asks(piece: Segment) -> bool:
    if not piece.asks or piece.node is None:
        return False
    return not piece.defines or unwritten(piece.node)


def _arguments(piece: Segment) -> str:
    """The names of a function's arguments, in their order."""
    assert isinstance(piece.node, ast.FunctionDef | ast.AsyncFunctionDef)
    return ", ".join(node.arg for node in ast.walk(piece.node.args) if isinstance(node, ast.arg))


def _joined(pieces: Sequence[Segment]) -> str:
    text = ""
    for i, piece in enumerate(pieces):
        if i:
            blank = 2 if piece.defines or pieces[i - 1].defines else min(piece.blank, 2)
            text += "\n" * (1 + blank)
        text += piece.text
    return text


# Questions, by their headings


def _place(cells: Iterable[_Cell], lab: int) -> dict[str, str]:
    """Say of every cell which question of the lab it belongs to; the questions with their titles."""
    titles: dict[str, str] = {}
    current = ""
    for cell in cells:
        if cell.kind == "markdown":
            for line in cell.source.split("\n"):
                if (found := HEADING.match(line)) and len(found[1]) <= 3:
                    asked = QUESTION.match(found[2]) if len(found[1]) == 3 else None
                    current = asked[1] if asked and asked[1].startswith(f"{lab}.") else ""
                    if asked and current:
                        titles.setdefault(asked[1], " ".join(asked[3].split()).casefold())
        cell.question = current
    return titles


def _renumbered(
    mine: Sequence[_Cell], old: dict[str, str], theirs: Sequence[_Cell], new: dict[str, str]
) -> dict[str, str]:
    """The questions that have another number in the release: by their titles, else by the functions they ask for.

    One that is gone, and whose number another question has now, becomes "1.4_earlier", so that no answer goes to the wrong one.
    """
    titles = {title: id for id, title in reversed(new.items())}
    asked = {
        name: cell.question for cell in theirs for name in cell.asks if cell.question and not _numbered(name)
    }  # fmt: skip
    found = {id: titles.get(title, "") for id, title in old.items()}
    for id in (id for id, to in found.items() if not to):
        names = sorted({name for cell in mine if cell.question == id for name in cell.names | cell.asks})
        found[id] = next((asked[n] for n in names if n in asked and asked[n] not in found.values()), "")
    taken = set(found.values())  # these numbers are another question's now
    moved = {id: to or f"{id}_earlier" for id, to in found.items() if to or id in taken}
    return {id: to for id, to in moved.items() if to != id}


_VALUE = re.compile(r"\b(prediction|answer)_(\d+)_(\d+)(?!\d)")
_CALL = re.compile(r"""\b(check|skip)\((\s*["'])(\d+\.\d+)(?=["'])""")


def _numbered(name: str) -> bool:
    return _VALUE.match(name) is not None


def _renumber(source: str, moved: dict[str, str]) -> str:
    """A student's code with the numbers that the release has: ``prediction_1_4``, ``skip("1.4")``."""

    def value(found: re.Match[str]) -> str:
        return f"{found[1]}_{moved.get(f'{found[2]}.{found[3]}', f'{found[2]}.{found[3]}').replace('.', '_')}"

    return _CALL.sub(lambda f: f"{f[1]}({f[2]}{moved.get(f[3], f[3])}", _VALUE.sub(value, source))


def _mentions(source: str, question: str) -> bool:
    return any(f"{f[2]}.{f[3]}" == question for f in _VALUE.finditer(source)) or any(
        f[3] == question for f in _CALL.finditer(source)
    )


# Cells


def _rising(places: Sequence[int]) -> set[int]:
    """The longest rising run among the places: cells that were not moved against the others."""
    best: list[list[int]] = []  # best[i]: of the runs of i + 1 places, the one that ends lowest
    for place in places:
        i = bisect_left(best, place, key=lambda run: run[-1])
        best[i : i + 1] = [[*(best[i - 1] if i else []), place]]
    return set(best[-1]) if best else set()


def _cells(notebook: Any) -> list[_Cell]:
    return [
        _Cell(cell, cell.cell_type, cell.source, str(cell.get("id") or cell.metadata.get("id") or ""))
        for cell in notebook.cells
    ]


def _said(cell: Any) -> tuple[str, str]:
    return cell.cell_type, cell.source


def _copy(cell: _Cell) -> Any:
    made = copy.deepcopy(cell.node)
    if cell.kind == "code":
        made.outputs, made.execution_count = [], None
    return made


def _own(cell: _Cell) -> Any:
    """A cell of the student's as it goes over; a handout's id would say that the release has it."""
    from nbformat import v4

    make = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}[cell.kind]
    made = make(cell.source)
    if re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", cell.id) and not cell.handed:
        made["id"] = cell.id
    if attachments := cell.node.get("attachments"):
        made["attachments"] = copy.deepcopy(attachments)
    _add_metadata(made, cell.node)
    return made


def _add_metadata(made: Any, old: Any) -> None:
    for key, value in old.metadata.items():
        if key not in made.metadata and key not in _NOT_OURS:
            made.metadata[key] = copy.deepcopy(value)


def _markdown(text: str) -> Any:
    from nbformat import v4

    return v4.new_markdown_cell(text)


def _unique(cells: list[Any]) -> list[Any]:
    used: set[str] = set()
    for cell in cells:
        if cell["id"] in used:
            cell["id"] = uuid.uuid4().hex[:8]
        used.add(cell["id"])
    return cells


def _alike(a: str, b: str) -> float:
    """How much of two texts is the same, by words in order; 1 if they begin with the same heading."""
    first, other = a.lstrip().partition("\n")[0], b.lstrip().partition("\n")[0]
    if HEADING.match(first) and first.split() == other.split():
        return 1.0
    return SequenceMatcher(None, a.split(), b.split(), autojunk=False).ratio()


def _what(cell: _Cell, asked: dict[str, int]) -> str:
    """How the table names a cell: by what it answers, else by its first line."""
    if answers := sorted(name for name in cell.names if name in asked):
        return ", ".join(answers)
    line = next((line.strip() for line in cell.source.split("\n") if line.strip()), "a picture")
    return line if len(line) <= 60 else line[:59] + "…"


# Files


def _read(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give the notebook you worked in")
    return _parsed(path.read_bytes(), str(path))


def _parsed(data: bytes, name: str) -> Any:
    import nbformat

    try:
        raw = json.loads(data.decode("utf-8-sig"))
        if not isinstance(raw, dict) or not isinstance(raw.get("cells", raw.get("worksheets")), list):
            raise ValueError("it has no cells")
        notebook = nbformat.reads(json.dumps(raw), as_version=4)
        for cell in notebook.cells:
            if cell.cell_type not in ("code", "markdown", "raw") or not isinstance(cell.source, str):
                raise ValueError("a cell of it is none that Jupyter knows")
            cell.setdefault("metadata", nbformat.NotebookNode())
    except Exception as error:  # whatever nbformat meets in a file that is something else
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:120]
        raise ValueError(f"{name} is no notebook that can be read ({reason}): give an .ipynb file of a lab") from error
    return notebook


def _course(notebook: Any) -> dict[str, Any]:
    course = notebook.metadata.get("course")
    return course if isinstance(course, dict) else {}


def _lab(notebook: Any, path: Path) -> str:
    """ "lab01", by what the notebook says of itself, else by the name of the file."""
    if re.fullmatch(r"lab\d\d", str(_course(notebook).get("lab", ""))):
        return str(_course(notebook)["lab"])
    if found := re.match(r"lab\d\d", path.name):
        return found[0]
    raise ValueError(f"{path} does not say of which lab it is: name the file lab00….ipynb, lab01….ipynb or so")


def _of_release(release: Path, lab: str, mine: Path) -> Any:
    """The lab's notebook in a release, as it was handed out."""
    from course_lib.authoring.build import version

    there: dict[str, tuple[str, Any]] = {}
    for name, data in _notebooks(release):
        notebook = _parsed(data, name)
        course = _course(notebook)
        if {"lab", "version"} <= course.keys():
            clean = version(notebook) == course["version"]
            if clean or course["lab"] not in there:
                there[str(course["lab"])] = (name, notebook)
    if lab not in there:
        has = f"it has {', '.join(sorted(there))}" if there else "it has no lab: give the folder with labs/ in it"
        raise ValueError(f"{mine} is of {lab}, which is not in {release}: {has}")
    name, notebook = there[lab]
    if Path(name).exists() and mine.resolve() == Path(name).resolve():
        raise ValueError(f"{mine} is itself in {release}: give the folder of the new release with --release FOLDER")
    if version(notebook) != notebook.metadata["course"]["version"]:
        raise ValueError(f"{name} has been worked in: unpack the release anew, into an empty folder, and give that one")
    return notebook


def _notebooks(release: Path) -> list[tuple[str, bytes]]:
    if release.is_dir():
        folder = release / "labs" if (release / "labs").is_dir() else release
        return [(str(path), path.read_bytes()) for path in sorted(folder.glob("lab*.ipynb"))]
    if not release.is_file():
        raise FileNotFoundError(f"{release} does not exist: give the folder of the new release, or its zip")
    if release.suffix != ".zip":
        return [(str(release), release.read_bytes())]
    try:
        with zipfile.ZipFile(release) as archive:
            names = [n for n in archive.namelist() if re.search(r"(^|/)labs/lab[^/]*\.ipynb$", n)]
            return [(f"{release}: {n}", archive.read(n)) for n in names]
    except (zipfile.BadZipFile, RuntimeError, EOFError) as error:
        raise ValueError(f"{release} is no zip that can be read ({error}): download the release again") from error


def _writes(notebook: Any) -> str:
    import nbformat

    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError:  # the student's cells may carry metadata that no schema allows
        for cell in notebook.cells:
            cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "nbgrader"})
        nbformat.validate(notebook)
    return nbformat.writes(notebook, version=nbformat.NO_CONVERT)


def _back_up(path: Path) -> Path:
    """A copy of a file beside it, under a name that is not taken."""
    number, backup = 1, path.with_name(f"{path.stem}.before-update.ipynb")
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.stem}.before-update-{number}.ipynb")
    shutil.copy2(path, backup)
    return backup
