"""A student's work carried into a corrected release of its lab: the release's text, the
student's answers, nothing lost.

Three notebooks are merged, cell by cell and line by line: the handout that the student
began with (their notebook carries a copy of it, :mod:`course_lib.authoring.handout`),
what they made of it, and the release.

- Where only one of both changed a line, that change goes over. So an answer keeps its
  body and gets the release's docstring.
- Where both changed the same lines, the student's whole cell stands behind the
  release's, under a note.
- Cells that the student added stay after the same cell as before; what they moved goes
  back to where the release has it.
- What has no place any more stands at the end under a heading.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import uuid
import zipfile
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from course_lib import files
from course_lib.authoring import handout
from course_lib.authoring.source import HEADING, QUESTION, syntax_error
from course_lib.paths import course_root

HEADING_AT_END = "## From your earlier notebook"
_END = "What follows had no place in this release of the lab. Move what you still need."
_BOTH = (
    "*From your earlier notebook: the release changed the same lines. Its cell stands above, yours"
    " below; compare them.*"
)
_SEE = "see your own cell"
_ALIKE = 0.5  # share of words in the same order from which on a cell counts as another form of one
# metadata that belong to a place or a run
_NOT_OURS = {"nbgrader", "id", "outputId", "colab", "execution", "scrolled"}


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
        path: the notebook written. backup: the copy of what was there before, or None.
        carried: what went over, in the notebook's order. current: was it of this
            release already? It is only copied then.
        guessed: did the notebook not say which handout it began as, so that whatever
            differs from the release counts as the student's?
        written: was there anything to write?
    """

    path: Path
    backup: Path | None
    carried: list[Carried]
    current: bool
    guessed: bool = False
    written: bool = False


WHOLE = "as you wrote it"
MERGED = "with the release's new text round it"
BOTH = "below the release's new text: compare them"
OWN = "your own cell"
END = "at the end: the release has no place for it"


def update(notebook: Path, release: Path | None = None, out: Path | None = None) -> Updated:
    """Carry what a student wrote in ``notebook`` into the same lab of ``release``.

    Outputs are left out: they came from the earlier text. A file that would be replaced
    is copied beside first, as ``….before-update.ipynb``.

    Args:
        release: a release folder, its zip, or the one notebook; by default the course
            folder round the working folder.
        out: the file or folder to write; by default ``notebook`` itself.

    Raises:
        FileNotFoundError: if the notebook, the release or the lab in it is not there.
        ValueError: if a file is no notebook, is of another lab, or the release's
            notebook has been worked in.
    """
    notebook = Path(notebook)
    old = _read(notebook)
    if release is None:
        release = course_root()
        if release is None:
            raise FileNotFoundError(
                "which release? Give its folder: course update NOTEBOOK --release FOLDER"
            )
    new = _of_release(Path(release), _lab(old, notebook), notebook)
    target = notebook if out is None else out / notebook.name if out.is_dir() else out
    carried: list[Carried] = []
    current = _course(old).get("version") == new.metadata["course"]["version"]
    data = notebook.read_bytes()
    if not current:
        made, carried = merge(old, new)
        current = [_said(cell) for cell in made.cells] == [_said(cell) for cell in old.cells]
        data = (_writes(made).rstrip("\n") + "\n").encode()
    if current and (
        target.resolve() == notebook.resolve() or (target.is_file() and target.read_bytes() == data)
    ):
        return Updated(target, None, [], True)
    backup = _back_up(target) if target.exists() else None
    files.put(target, data)
    return Updated(
        target,
        backup,
        carried,
        current,
        not current and not handout.unpacked(_course(old).get("handout")),
        True,
    )


def merge(old: Any, new: Any) -> tuple[Any, list[Carried]]:
    """The notebook ``new`` with what the student wrote in ``old``, both as nbformat
    reads them; and where each piece stands.
    """
    lab = str(new.metadata["course"]["lab"])
    mine, theirs = _cells(old), _cells(new)
    base = _handout(lab, old) or _rebuilt(lab, mine, theirs)
    _say_what_was(base, mine)
    moved = _renumbered(lab, base, theirs)
    for cell in (*base, *mine):
        cell.source = _renumber(cell.source, moved)
    _number(lab, base)
    for at, i in _pairs(base, theirs).items():
        base[i].now = at
    work, own = _places(lab, base, mine, theirs)

    cells: list[Any] = []
    rows: list[tuple[_Cell, str, str]] = []
    done: set[str] = set()  # what the student's cells so far answer
    for at in range(-1, len(theirs) + 1):
        here = own.get(at, [])
        if 0 <= at < len(theirs):
            made = _copy(new.cells[at])
            answered = frozenset(done)
            if at in work:
                text, how = _merged(work[at], theirs[at])
                if how == BOTH:
                    here = [(work[at], BOTH), *here]
                else:
                    _take(made, text, work[at])
                    rows.append((work[at], theirs[at].question, how))
                    done |= work[at].written
            # it would undo the answer
            made.source = _without(made.source, answered, theirs[at].source)
            cells.append(made)
        elif here and at > 0 and not any(cell.source.startswith(HEADING_AT_END) for cell in mine):
            cells.append(_markdown(f"{HEADING_AT_END}\n\n{_END}"))
        for cell, how in here:
            cells += [*([_markdown(_BOTH)] if how == BOTH else []), _own(cell)]
            rows.append((cell, theirs[at].question if 0 <= at < len(theirs) else "", how))
            done |= cell.written

    made = copy.deepcopy(new)
    made.cells = _unique(cells)
    for key, value in old.metadata.items():
        if key not in made.metadata and key not in ("widgets", "signature"):
            made.metadata[key] = copy.deepcopy(value)
    asks = {name for cell in theirs for name in cell.asks}
    return made, [
        Carried(_what(cell, asks), question, how + _from(cell, moved))
        for cell, question, how in rows
    ]


@dataclass(eq=False)
class _Cell:
    """A cell of the student's notebook (mine), of the handout that it was (base) or of
    the release (theirs).
    """

    node: Any
    kind: str
    source: str
    id: str
    question: str = ""
    was: _Cell | None = None  # mine: the handout's
    moved: bool = False  # mine: against the others
    now: int | None = None  # base: which of the release's

    @property
    def said(self) -> tuple[str, str]:
        return self.kind, self.source

    @property
    def asks(self) -> frozenset[str]:
        return handout.asked(self.source) if self.kind == "code" else frozenset()

    @property
    def written(self) -> frozenset[str]:
        return handout.answered(self.source) if self.kind == "code" else frozenset()


def _cells(notebook: Any) -> list[_Cell]:
    return [
        _Cell(
            cell, cell.cell_type, cell.source, str(cell.get("id") or cell.metadata.get("id") or "")
        )
        for cell in notebook.cells
    ]


def _handout(lab: str, notebook: Any) -> list[_Cell]:
    """The handout that a student notebook began as; [] where it does not say."""
    return _number(
        lab, [_Cell(None, *cell, "") for cell in handout.unpacked(_course(notebook).get("handout"))]
    )


def _number(lab: str, cells: list[_Cell]) -> list[_Cell]:
    for cell, id in zip(cells, handout.ids(lab, [cell.said for cell in cells]), strict=True):
        cell.id = id
    return cells


def _rebuilt(lab: str, mine: list[_Cell], theirs: list[_Cell]) -> list[_Cell]:
    """The handout as far as it can be told without its copy: the student's cells that
    are as their ids say, else the release's.
    """
    now = _pairs(theirs, mine)
    # with their places in the release: the student's order may be another one
    cells: list[tuple[int, _Cell]] = []
    for at, cell in enumerate(mine):
        place = now.get(at, cells[-1][0] if cells else -1)
        if cell.id and cell.id in handout.ids(lab, [cell.said] * 20):
            cells.append((place, replace(cell)))
        elif at in now:
            cells.append((place, replace(theirs[place], id=cell.id)))
    return [cell for _, cell in sorted(cells, key=lambda found: found[0])]


# Which cell is which?


def _say_what_was(base: list[_Cell], mine: list[_Cell]) -> None:
    """Tell the student's cells which of the handout's they were, and whether they were
    moved against the others.

    Of two definitions of a name the later one counts: a cell with one of them that was
    moved stays where it is, as the student's.
    """
    home = _pairs(base, mine)
    order = [home[at] for at in sorted(home)]
    blocks = SequenceMatcher(None, order, sorted(order), autojunk=False).get_matching_blocks()
    still = {i for a, _, size in blocks for i in order[a : a + size]}
    times = Counter(name for cell in mine for name in cell.written)
    for at, i in home.items():
        mine[at].moved = i not in still
        if not mine[at].moved or all(times[name] == 1 for name in mine[at].written):
            mine[at].was = base[i]


def _pairs(first: list[_Cell], other: list[_Cell]) -> dict[int, int]:
    """Of the cells of ``other``, by number, those of ``first`` that they are another
    form of: by id, by text, by what they ask for, and what is left between two of these
    by likeness.
    """
    found: dict[int, int] = {}
    taken: set[int] = set()
    texts = {cell.said for cell in first}
    # of copies with one id, the one that was worked in, the last of them; else the
    # first
    order = sorted(
        range(len(other)), key=lambda at: (True, at) if other[at].said in texts else (False, -at)
    )
    for key in (lambda cell: cell.id and (cell.id, cell.kind), lambda cell: cell.said):
        places: dict[Any, list[int]] = {}
        for i, cell in enumerate(first):
            places.setdefault(key(cell), []).append(i)
        for at in order:
            free = [i for i in places.get(key(other[at]), []) if i not in taken]
            if at not in found and key(other[at]) and free:
                found[at] = free[0]
                taken.add(free[0])
    for at, cell in enumerate(other):
        if at in found:
            continue
        low = max((i for a, i in found.items() if a < at), default=-1)
        high = min((i for a, i in found.items() if a > at), default=len(first))
        free = [i for i, was in enumerate(first) if i not in taken and was.kind == cell.kind]
        alike = [(_alike(first[i], cell, low < i < high or low >= high), -i) for i in free]
        if alike and max(alike)[0] >= _ALIKE:
            found[at] = -max(alike)[1]
            taken.add(found[at])
    return found


def _alike(was: _Cell, cell: _Cell, near: bool) -> float:
    """How much of two texts is the same, by words in order; 1 where they ask for the
    same or begin with the same heading.
    """
    if was.asks & cell.asks:
        return 1.0
    if not near:
        return 0.0
    first, other = was.source.lstrip().partition("\n")[0], cell.source.lstrip().partition("\n")[0]
    if HEADING.match(first) and first.split() == other.split():
        return 1.0
    return SequenceMatcher(None, was.source.split(), cell.source.split(), autojunk=False).ratio()


def _places(
    lab: str, base: list[_Cell], mine: list[_Cell], theirs: list[_Cell]
) -> tuple[dict[int, _Cell], dict[int, list[tuple[_Cell, str]]]]:
    """What goes into a cell of the release, and what stands behind one: -1 is the top,
    one more than there are the end.
    """
    known = {cell.said for cell in (*base, *theirs)}
    _questions(lab, base)
    there = _questions(lab, theirs)
    work: dict[int, _Cell] = {}
    own: dict[int, list[tuple[_Cell, str]]] = {}
    end = len(theirs)
    strange = not any(cell.was for cell in mine)  # cells of a handout, pasted into another notebook
    last = -1
    for cell in mine:
        holds = bool(cell.source.strip() or cell.node.get("attachments"))
        if cell.was is None:
            asking = (at for at, their in enumerate(theirs) if their.asks & cell.written)
            at = next(asking, end) if strange else last
            if holds and cell.said not in known:
                own.setdefault(at, []).append((cell, END if at == end else OWN))
        elif cell.was.now is None:
            if holds and cell.source != cell.was.source:
                own.setdefault(end, []).append((cell, END))
            last = end if cell.was.question and cell.was.question not in there else last
        else:
            at = cell.was.now
            last = last if cell.moved else at
            handed = _without(cell.was.source, _seen(cell.source))
            if holds and (cell.source != handed or cell.node.get("attachments")):
                work[at] = cell
    return work, own


# One cell out of three


def _merged(cell: _Cell, their: _Cell) -> tuple[str, str]:
    """The text of the student's ``cell`` with what the release changed, and how it
    stands there; BOTH where that cannot be done.
    """
    assert cell.was is not None
    seen = _seen(cell.source)
    base, theirs = _without(cell.was.source, seen), _without(their.source, seen)
    if base == theirs:
        return cell.source, WHOLE
    text = _three_way(base.split("\n"), cell.source.split("\n"), theirs.split("\n"))
    if text is None or (
        cell.kind == "code" and (syntax_error(text) or cell.written - handout.answered(text))
    ):
        return "", BOTH
    return text, MERGED


def _three_way(base: list[str], mine: list[str], theirs: list[str]) -> str | None:
    """The lines of ``base`` with the changes of both sides; None where both changed the
    same lines, and not alike.
    """
    ours, other = _changes(base, mine), _changes(base, theirs)
    for a, b, new in ours:
        for c, d, also in other:
            inside = c < a < d or a < c < b or (a == c and b > a and d > c)
            if inside and (a, b, new) != (c, d, also):
                return None
    made: list[str] = []
    done = 0
    for begin, end, new in sorted(
        other + [change for change in ours if change not in other], key=lambda c: c[:2]
    ):
        made += base[done:begin] + new
        done = end
    return "\n".join(made + base[done:])


def _changes(base: list[str], lines: list[str]) -> list[tuple[int, int, list[str]]]:
    """(first line, line behind the last, what stands there instead) of all that
    differs.
    """
    blocks = SequenceMatcher(None, base, lines, autojunk=False).get_opcodes()
    return [(a, b, lines[c:d]) for kind, a, b, c, d in blocks if kind != "equal"]


def _without(source: str, names: Collection[str], handed: str | None = None) -> str:
    """A handout's cell without the placeholders of names that are answered in another
    cell.

    Args:
        handed: only those that stand in this text.
    """
    lines = source.split("\n")
    for statement in reversed(handout.placeholders(source) if names else []):
        text = "\n".join(lines[statement.first - 1 : statement.last])
        if statement.names <= set(names) and (handed is None or text in handed):
            lines[statement.first - 1 : statement.last] = [
                f"# {', '.join(sorted(statement.names))}: {_SEE}"
            ]
    return "\n".join(lines)


def _seen(source: str) -> set[str]:
    """The names that :func:`_without` has taken out of a cell."""
    return {
        name for line in re.findall(rf"^# (.+): {_SEE}$", source, re.M) for name in line.split(", ")
    }


# Questions, by their headings


def _questions(lab: str, cells: list[_Cell]) -> dict[str, tuple[str, set[str]]]:
    """The questions with their titles and the functions they ask for; each cell is told
    to which it belongs.
    """
    found: dict[str, tuple[str, set[str]]] = {}
    current = ""
    for cell in cells:
        for line in cell.source.split("\n") if cell.kind == "markdown" else ():
            if (heading := HEADING.match(line)) and len(heading[1]) <= 3:
                asked = QUESTION.match(heading[2]) if len(heading[1]) == 3 else None
                current = asked[1] if asked and asked[1].startswith(f"{int(lab[3:5])}.") else ""
                if asked and current:
                    found.setdefault(current, (" ".join(asked[3].split()).casefold(), set()))
        cell.question = current
        if current:
            found[current][1].update(name for name in cell.asks if not _NUMBERED.match(name))
    return found


def _renumbered(lab: str, base: list[_Cell], theirs: list[_Cell]) -> dict[str, str]:
    """The questions that have another number in the release: by their titles, else by
    the functions they ask for.

    One that is gone, and whose number another question has now, becomes "1.4_earlier",
    so that no answer goes to the wrong one.
    """
    old, new = _questions(lab, base), _questions(lab, theirs)
    found = {
        id: next((n for n, (t, _) in new.items() if t == title), "")
        for id, (title, _) in old.items()
    }
    for id, (_, names) in old.items():
        if not found[id]:
            found[id] = next(
                (n for n, (_, asks) in new.items() if names & asks and n not in found.values()), ""
            )
    taken = set(found.values())  # these numbers are another question's now
    moved = {id: to or f"{id}_earlier" for id, to in found.items() if to or id in taken}
    return {id: to for id, to in moved.items() if to != id}


_NUMBERED = re.compile(
    r"""(\b(?:prediction|answer)_|\b(?:check|skip|NotImplementedError)\(\s*["']|^\#\#\#\s)(\d+[._]\d+)(?!\d)""",
    re.M,
)


def _renumber(source: str, moved: dict[str, str]) -> str:
    """A text with the numbers that the release has: ``prediction_1_4``,
    ``skip("1.4")``, headings.
    """

    def number(found: re.Match[str]) -> str:
        old = found[2].replace("_", ".")
        return found[1] + moved.get(old, old).replace(".", "_" if "_" in found[2] else ".")

    return _NUMBERED.sub(number, source)


def _from(cell: _Cell, moved: dict[str, str]) -> str:
    old = sorted(id for id in moved if _renumber(cell.node.source, {id: ""}) != cell.node.source)
    return f", renumbered from {', '.join(old)}" if old else ""


# Cells


def _copy(node: Any) -> Any:
    made = copy.deepcopy(node)
    if made.cell_type == "code":
        made.outputs, made.execution_count = [], None
    return made


def _take(made: Any, text: str, cell: _Cell) -> None:
    """Put the student's work into a copy of the release's cell."""
    made.source = text
    _add_metadata(made, cell.node)
    if attachments := cell.node.get("attachments"):
        made.attachments = {**made.get("attachments", {}), **copy.deepcopy(attachments)}


def _own(cell: _Cell) -> Any:
    """A cell of the student's as it goes over; a handout's id would say that the
    release has it.
    """
    from nbformat import v4

    make = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}[
        cell.kind
    ]
    made = make(cell.source)
    if re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", cell.id) and not re.fullmatch("[0-9a-f]{16}", cell.id):
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


def _said(cell: Any) -> tuple[str, str]:
    return cell.cell_type, cell.source


def _what(cell: _Cell, asked: set[str]) -> str:
    """How the table names a cell: by what it answers, else by its first line."""
    if answers := sorted(cell.written & asked):
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
        has = (
            f"it has {', '.join(sorted(there))}"
            if there
            else "it has no lab: give the folder with labs/ in it"
        )
        raise ValueError(f"{mine} is of {lab}, which is not in {release}: {has}")
    name, notebook = there[lab]
    if Path(name).exists() and mine.resolve() == Path(name).resolve():
        raise ValueError(
            f"{mine} is itself in {release}: give the folder of the new release with --release"
            " FOLDER"
        )
    if version(notebook) != notebook.metadata["course"]["version"]:
        raise ValueError(
            f"{name} has been worked in: unpack the release anew, into an empty folder, and give"
            " that one"
        )
    return notebook


def _notebooks(release: Path) -> list[tuple[str, bytes]]:
    if release.is_dir():
        folder = release / "labs" if (release / "labs").is_dir() else release
        return [(str(path), path.read_bytes()) for path in sorted(folder.glob("lab*.ipynb"))]
    if not release.is_file():
        raise FileNotFoundError(
            f"{release} does not exist: give the folder of the new release, or its zip"
        )
    if release.suffix != ".zip":
        return [(str(release), release.read_bytes())]
    try:
        with zipfile.ZipFile(release) as archive:
            names = [n for n in archive.namelist() if re.search(r"(^|/)labs/lab[^/]*\.ipynb$", n)]
            return [(f"{release}: {n}", archive.read(n)) for n in names]
    except (zipfile.BadZipFile, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{release} is no zip that can be read ({error}): download the release again"
        ) from error


def _writes(notebook: Any) -> str:
    import nbformat

    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError:  # the student's cells may carry metadata that no schema allows
        for cell in notebook.cells:
            cell.metadata = nbformat.from_dict(
                {k: v for k, v in cell.metadata.items() if k == "nbgrader"}
            )
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
