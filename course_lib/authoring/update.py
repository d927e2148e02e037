"""A student's work carried into a corrected release of its lab: the release's text, the
student's answers, nothing lost.

Three notebooks are merged, cell by cell and line by line: the handout that the student
began with (their notebook carries a copy of it, :mod:`course_lib.authoring.handout`),
the student's notebook, and the release.

- Where only one of both changed a line, that change goes over. So an answer keeps its
  body and gets the release's docstring. A three-way merge of whole files would call two
  changes of neighbouring lines a conflict; here they are none.
- Where both changed the same lines, the student's whole cell stands below the
  release's, under a note.
- Cells that the student added, or moved and changed, stay after the same cell as
  before, or stand below the release's cell that asks for what they answer.
- A changed cell that the release no longer has stands at the end under a heading.
- A question that has another number in the release, by its title, takes its answers
  along.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import zipfile
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from course_lib import files
from course_lib.authoring import handout
from course_lib.authoring.build import as_bytes, version
from course_lib.authoring.source import HEADING, QUESTION, syntax_error
from course_lib.paths import course_root

HEADING_AT_END = "## From your earlier notebook"
_END = "What follows had no place in this release of the lab. Move what you still need."
_BOTH = (
    "*From your earlier notebook: the release changed the same lines. Its cell stands above, yours"
    " below; compare them.*"
)
_ALIKE = 0.5  # share of words in the same order from which on a cell counts as another form of one
_NUMBERED = re.compile(
    r"""(\b(?:prediction|answer)_|\b(?:check|skip|NotImplementedError)\(\s*["']|^\#\#\#\s)(\d+[._]\d+)(?!\d)""",
    re.M,
)

WHOLE = "as you wrote it"
MERGED = "with the release's new text round it"
BOTH = "below the release's new text: compare them"
OWN = "your own cell"
END = "at the end: the release has no place for it"


@dataclass(frozen=True)
class Carried:
    """One thing that was carried over: what it is, the question it went to ("" outside
    of any), and how it stands there.
    """

    what: str
    question: str
    how: str


@dataclass(frozen=True)
class Updated:
    """What :func:`update` did.

    Attributes:
        path: the notebook written.
        backup: the copy of what was there before, or None.
        carried: what went over, in the notebook's order.
        current: was it of this release already? It is only copied then.
        guessed: did the notebook not say which handout it began as, so that whatever
            differs from the release counts as the student's?
        written: was there anything to write?
    """

    path: Path
    backup: Path | None
    carried: list[Carried]
    current: bool
    guessed: bool
    written: bool


def update(notebook: Path, release: Path | None = None, out: Path | None = None) -> Updated:
    """Carry what a student wrote in ``notebook`` into the same lab of ``release``.

    Outputs are left out: they came from the earlier text. A file that would be replaced
    is copied beside first, as ``….before-update.ipynb``.

    Args:
        release: a release folder or its zip; by default the course folder round the
            working folder.
        out: the file or folder to write; by default ``notebook`` itself.

    Raises:
        FileNotFoundError: if the notebook, the release or the lab in it is not there.
        ValueError: if a file is no notebook, is of another lab, or the release's
            notebook has been worked in.
    """
    if not notebook.is_file():
        raise FileNotFoundError(f"{notebook} does not exist: give the notebook you worked in")
    data = notebook.read_bytes()
    old = _parsed(data, str(notebook))
    release = release or course_root()
    if release is None:
        raise FileNotFoundError(
            "which release? Give its folder: course update NOTEBOOK --release FOLDER"
        )
    new = _of_release(release, _lab(old, notebook), notebook)
    target = notebook if out is None else out / notebook.name if out.is_dir() else out
    carried: list[Carried] = []
    current = _course(old).get("version") == _course(new)["version"]
    if not current:
        made, carried = merge(old, new)
        current = [_said(cell) for cell in made.cells] == [_said(cell) for cell in old.cells]
        data = data if current else as_bytes(made)
    guessed = not current and not handout.unpacked(_course(old).get("handout"))
    if target.is_file() and target.read_bytes() == data:
        return Updated(target, None, carried, current, guessed, False)
    backup = _back_up(target) if target.exists() else None
    files.write_atomic(target, data)
    return Updated(target, backup, carried, current, guessed, True)


@dataclass(eq=False)
class _Cell:
    """A cell of the student's notebook, of the handout that it was or of the release."""

    kind: str
    source: str
    id: str = ""
    node: Any = None
    question: str = ""

    @property
    def said(self) -> tuple[str, str]:
        return self.kind, self.source

    @property
    def asks(self) -> set[str]:
        return set(handout.asked(self.source)) if self.kind == "code" else set()

    @property
    def answers(self) -> set[str]:
        return set(handout.answered(self.source)) if self.kind == "code" else set()

    @property
    def holds_work(self) -> bool:
        return bool(self.source.strip() or self.node.get("attachments"))


def merge(old: Any, new: Any) -> tuple[Any, list[Carried]]:
    """The notebook ``new`` with what the student wrote in ``old``, both as nbformat
    reads them; and where each piece stands.
    """
    lab = str(new.metadata["course"]["lab"])
    mine, theirs = _cells(old), _cells(new)
    copied = handout.unpacked(_course(old).get("handout"))
    base = [_Cell(*said, id) for said, id in zip(copied, handout.ids(lab, copied), strict=True)]
    base = base or _guess_handout(lab, mine, theirs)
    was = _in_order(_pairs(base, mine))
    moved = _renumbered(_find_questions(lab, base), _find_questions(lab, theirs))
    for cell in (*base, *mine):
        cell.source, cell.id = _renumber(cell.source, moved), cell.id if cell.node else ""
    now = {i: at for at, i in _pairs(base, theirs).items()}

    # what goes into a cell of the release, and what stands below one: -1 is the top,
    # one more than there are the end
    work: dict[int, tuple[_Cell, _Cell]] = {}
    own: dict[int, list[tuple[_Cell, str]]] = {}
    known = {cell.said for cell in (*base, *theirs)}
    last, end = -1, len(theirs)
    found = {now.get(i) for i in was.values()}
    for number, cell in enumerate(mine):
        if number not in was:
            # below the placeholder of what it answers, which would undo the answer
            asking = (at for at in range(end) if at not in found and theirs[at].asks & cell.answers)
            if cell.holds_work and cell.said not in known:
                own.setdefault(max(last, next(asking, -1)), []).append((cell, OWN))
            continue
        first, at = base[was[number]], now.get(was[number])
        last = last if at is None else at
        if cell.holds_work and (cell.source != first.source or cell.node.get("attachments")):
            if at is None:
                own.setdefault(end, []).append((cell, END))
            else:
                work[at] = first, cell

    cells: list[Any] = []
    rows: list[tuple[_Cell, str, str]] = []
    for at in range(-1, end + 1):
        here = own.get(at, [])
        question = theirs[at].question if 0 <= at < end else ""
        if 0 <= at < end:
            node = _without_outputs(new.cells[at])
            if at in work:
                first, cell = work[at]
                text = _merged(first, cell, theirs[at])
                if text is None:
                    here = [(cell, BOTH), *here]
                else:
                    node.source = text
                    _add_attachments(node, cell.node)
                    how = WHOLE if first.said == theirs[at].said else MERGED
                    rows.append((cell, question, how))
            cells.append(node)
        elif here and at == end and not any(c.source.startswith(HEADING_AT_END) for c in mine):
            cells.append(_new_cell("markdown", f"{HEADING_AT_END}\n\n{_END}"))
        for cell, how in here:
            cells += [_new_cell("markdown", _BOTH)] if how == BOTH else []
            cells.append(_own(cell, {node["id"] for node in (*cells, *new.cells)}))
            rows.append((cell, question, how))

    made = copy.deepcopy(new)
    made.cells = cells
    asks = {name for cell in theirs for name in cell.asks}
    return made, [
        Carried(_name(cell, asks), question, how + _from(cell, moved))
        for cell, question, how in rows
    ]


def _cells(notebook: Any) -> list[_Cell]:
    """Colab keeps ids in the metadata."""
    return [
        _Cell(cell.cell_type, cell.source, str(cell.get("id") or cell.metadata.get("id")), cell)
        for cell in notebook.cells
    ]


def _guess_handout(lab: str, mine: list[_Cell], theirs: list[_Cell]) -> list[_Cell]:
    """The release's cells, and in place of some their earlier form: the student's cells
    that still are as their ids say.
    """
    base = [_Cell(*cell.said) for cell in theirs]
    for at, i in _pairs(theirs, mine).items():
        base[i].id = mine[at].id
        if mine[at].id in handout.ids(lab, [mine[at].said] * 20):
            base[i].source = mine[at].source
    return base


def _pairs(first: list[_Cell], other: list[_Cell]) -> dict[int, int]:
    """Of the cells of ``other``, by number, those of ``first`` that they are another
    form of: by id, by text, by what they ask for, and what is left between two of these
    by likeness.
    """
    found: dict[int, int] = {}
    for key in (lambda cell: (cell.id, cell.kind), lambda cell: cell.said):
        places: dict[Any, list[int]] = {}
        for i, cell in enumerate(first):
            if i not in found.values():
                places.setdefault(key(cell), []).append(i)
        for at, cell in enumerate(other):
            if at not in found and places.get(key(cell)):
                found[at] = places[key(cell)].pop(0)
    for at, cell in enumerate(other):
        if at in found:
            continue
        low = max((i for a, i in found.items() if a < at), default=-1)
        high = min((i for a, i in found.items() if a > at), default=len(first))
        alike = [
            (_likeness(was, cell, low < i < high or low >= high), -i)
            for i, was in enumerate(first)
            if i not in found.values() and was.kind == cell.kind
        ]
        if alike and max(alike)[0] >= _ALIKE:
            found[at] = -max(alike)[1]
    return found


def _likeness(was: _Cell, cell: _Cell, near: bool) -> float:
    """How much of two texts is the same, by words in order; 1 where they ask for the
    same or begin with the same heading.
    """
    if was.asks & cell.asks:
        return 1.0
    if not near:
        return 0.0
    first, other = (text.source.lstrip().partition("\n")[0] for text in (was, cell))
    if HEADING.match(first) and first.split() == other.split():
        return 1.0
    return SequenceMatcher(None, was.source.split(), cell.source.split(), autojunk=False).ratio()


def _in_order(pairs: dict[int, int]) -> dict[int, int]:
    """The pairs without cells that were moved against the others."""
    order = [pairs[at] for at in sorted(pairs)]
    blocks = SequenceMatcher(None, order, sorted(order), autojunk=False).get_matching_blocks()
    still = {i for a, _, size in blocks for i in order[a : a + size]}
    return {at: i for at, i in pairs.items() if i in still}


def _merged(base: _Cell, mine: _Cell, theirs: _Cell) -> str | None:
    """The lines of the handout's cell with the changes of both sides; None where both
    changed the same lines, and not alike, or where an answer would be lost.
    """
    ours, other = (_changes(base.source, cell.source) for cell in (mine, theirs))
    lines, made, done = base.source.split("\n"), list[str](), 0
    both = other + [change for change in ours if change not in other]
    for begin, end, new in sorted(both, key=lambda change: change[:2]):
        if begin < done:
            return None
        made += lines[done:begin] + new
        done = end
    text = "\n".join(made + lines[done:])
    if text != mine.source and mine.kind == "code":
        if syntax_error(text) or mine.answers - handout.answered(text):
            return None
    return text


def _changes(base: str, text: str) -> list[tuple[int, int, list[str]]]:
    """(first line, line behind the last, what stands there instead) of all that
    differs.
    """
    before, after = base.split("\n"), text.split("\n")
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(a, b, after[c:d]) for kind, a, b, c, d in blocks if kind != "equal"]


def _find_questions(lab: str, cells: list[_Cell]) -> dict[str, str]:
    """The questions with their titles; each cell is told to which it belongs."""
    found: dict[str, str] = {}
    current = ""
    for cell in cells:
        for line in cell.source.split("\n") if cell.kind == "markdown" else ():
            if (heading := HEADING.match(line)) and len(heading[1]) <= 3:
                asked = QUESTION.match(heading[2]) if len(heading[1]) == 3 else None
                current = asked[1] if asked and asked[1].startswith(f"{int(lab[3:5])}.") else ""
                if asked and current:
                    found.setdefault(current, " ".join(asked[3].split()).casefold())
        cell.question = current
    return found


def _renumbered(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """The questions that have another number in the release, by their titles.

    One that is gone, and whose number another question has now, becomes "1.4_earlier",
    so that no answer goes to the wrong one.
    """
    numbers = {title: id for id, title in new.items()}
    found = {id: numbers[title] for id, title in old.items() if title in numbers}
    gone = {id: f"{id}_earlier" for id in old if id not in found and id in found.values()}
    return {id: to for id, to in {**found, **gone}.items() if to != id}


def _renumber(source: str, moved: dict[str, str]) -> str:
    """A text with the numbers that the release has: ``prediction_1_4``,
    ``skip("1.4")``, headings.
    """

    def number(found: re.Match[str]) -> str:
        old = found[2].replace("_", ".")
        return found[1] + moved.get(old, old).replace(".", "_" if "_" in found[2] else ".")

    return _NUMBERED.sub(number, source)


def _from(cell: _Cell, moved: dict[str, str]) -> str:
    numbers = {found[1].replace("_", ".") for found in _NUMBERED.findall(cell.node.source)}
    old = sorted(numbers & moved.keys())
    return f", renumbered from {', '.join(old)}" if old else ""


def _without_outputs(node: Any) -> Any:
    made = copy.deepcopy(node)
    if made.cell_type == "code":
        made.outputs, made.execution_count = [], None
    return made


def _new_cell(kind: str, source: str) -> Any:
    from nbformat import v4

    make = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}
    return make[kind](source)


def _own(cell: _Cell, taken: set[str]) -> Any:
    """A cell of the student's as it goes over; a handout's id would say that the
    release has it.
    """
    made = _new_cell(cell.kind, cell.source)
    if re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", cell.id) and cell.id not in taken:
        if not re.fullmatch("[0-9a-f]{16}", cell.id):
            made["id"] = cell.id
    _add_attachments(made, cell.node)
    return made


def _add_attachments(made: Any, old: Any) -> None:
    if attachments := old.get("attachments"):
        made["attachments"] = {**made.get("attachments", {}), **copy.deepcopy(attachments)}


def _said(cell: Any) -> tuple[str, str]:
    return cell.cell_type, cell.source


def _name(cell: _Cell, asked: set[str]) -> str:
    """How the table names a cell: by what it answers, else by its first line."""
    if answers := sorted(cell.answers & asked):
        return ", ".join(answers)
    line = next((line.strip() for line in cell.source.split("\n") if line.strip()), "a picture")
    return line if len(line) <= 60 else line[:59] + "…"


def _parsed(data: bytes, name: str) -> Any:
    import nbformat

    try:
        raw = json.loads(data.decode("utf-8-sig"))
        if not isinstance(raw, dict) or not isinstance(
            raw.get("cells", raw.get("worksheets")), list
        ):
            raise ValueError("it has no cells")
        notebook = nbformat.reads(json.dumps(raw), as_version=4)
        for cell in notebook.cells:
            if cell.cell_type not in ("code", "markdown", "raw") or not isinstance(
                cell.source, str
            ):
                raise ValueError("a cell of it is none that Jupyter knows")
            cell.setdefault("metadata", nbformat.NotebookNode())
    except Exception as error:  # whatever nbformat meets in a file that is something else
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:120]
        raise ValueError(
            f"{name} is no notebook that can be read ({reason}): give an .ipynb file of a lab"
        ) from error
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
    raise ValueError(
        f"{path} does not say of which lab it is: name the file lab00….ipynb, lab01….ipynb or so"
    )


def _of_release(release: Path, lab: str, mine: Path) -> Any:
    """The lab's notebook in a release, as it was handed out."""
    labs: set[str] = set()
    worked_in = ""
    for name, data in _notebooks(release):
        notebook = _parsed(data, name)
        course = _course(notebook)
        labs |= {str(course["lab"])} if "lab" in course else set()
        if course.get("lab") != lab:
            continue
        if Path(name).exists() and mine.resolve() == Path(name).resolve():
            raise ValueError(
                f"{mine} is itself in {release}: give the folder of the new release with --release"
                " FOLDER"
            )
        if version(notebook) == course.get("version"):
            return notebook
        worked_in = name
    if worked_in:
        raise ValueError(
            f"{worked_in} has been worked in: unpack the release again, into an empty folder, and"
            " give that one"
        )
    has = f"it has {', '.join(sorted(labs))}" if labs else "give the folder with labs/ in it"
    raise ValueError(f"{mine} is of {lab}, which is not in {release}: {has}")


def _notebooks(release: Path) -> list[tuple[str, bytes]]:
    if release.is_dir():
        folder = release / "labs" if (release / "labs").is_dir() else release
        return [(str(path), path.read_bytes()) for path in sorted(folder.glob("lab*.ipynb"))]
    if not release.is_file():
        raise FileNotFoundError(
            f"{release} does not exist: give the folder of the new release, or its zip"
        )
    try:
        with zipfile.ZipFile(release) as archive:
            names = [n for n in archive.namelist() if re.search(r"(^|/)labs/lab[^/]*\.ipynb$", n)]
            return [(f"{release}: {n}", archive.read(n)) for n in names]
    except (zipfile.BadZipFile, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{release} is no zip that can be read ({error}): download the release again"
        ) from error


def _back_up(path: Path) -> Path:
    """A copy of a file beside it, under a name that is not taken."""
    number, backup = 1, path.with_name(f"{path.stem}.before-update.ipynb")
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.stem}.before-update-{number}.ipynb")
    shutil.copy2(path, backup)
    return backup
