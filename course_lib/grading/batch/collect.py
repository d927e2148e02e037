"""Finds the submissions in a folder, or in a class's zip. Reads text only; runs and
unpacks nothing.

What is handed in may be hostile: whatever is wrong with one student's files is that
student's problem, in a sentence.

Of several notebooks of one student one counts. Those that name another lab are left
out; of what is left, the newest *submission* (a folder ``2024-05-01T10-11-12``,
"attempt 2", nbgrader's or Gradescope's time); in it the notebook that names this lab;
then the newest by the number that Canvas or an upload of the same name adds, else by
the file's time. :attr:`Handed.choice` says which and why. Files are one student's only
where a learning management system's name or the student's own folder says so
(:mod:`course_lib.grading.batch.names`).
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from course_lib.grading.batch import ipynb, layout, modules, names
from course_lib.grading.batch.entries import Entry, File, of_a_student, on_disk
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.origin import Origin, another, of, released, remark

ATTEMPTS = 1e8  # a smaller stamp is an attempt's number, and no time
# of the files that are no submissions, how many are named one by one where there are
# more
SAID = 10
_TAGGED = re.compile(r".*-(?:[0-9a-f]{8}|[0-9a-f]{64})", re.IGNORECASE)
# on Windows
_RESERVED = {"con", "prn", "aux", "nul", *(f"{p}{i}" for p in ("com", "lpt") for i in range(1, 10))}


@dataclass
class Handed:
    """One student's submission.

    Attributes:
        id: the name of the file or folder (of an LMS's: the student's part of it),
            unique in the batch.
        cells: the source of the code cells; empty where the notebook could not be read.
        problem: why it could not be read, in a sentence; "" where it could.
        notebook: which file was taken. digest: of its code, so that a changed
            submission is graded again.
        choice: of several notebooks, which one counts and why, in a sentence; "" where
            there was one.
        submitters: what the names say of the student (several for group work), by the
            columns of a roster.
        time: when it was handed in, as the system or a folder's name says (seconds
            since 1970), or None. late: does the system say that it came late, or in
            time? None where it says neither.
        start: by which Canvas takes a file back for it, "" elsewhere.
        origin: the lab and release that its metadata name. remark: what is odd about
            that, in a sentence, or "".
        tag: how many digits of a hash its file name must have, for without them it is
            another's, too.
        files: what else was handed in with this notebook, by name: what the lab asks for,
            and own modules, by the path in the notebook's folder.
    """

    id: str
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    notebook: str = ""
    digest: str = ""
    choice: str = ""
    submitters: list[dict[str, str]] = field(default_factory=list)
    time: float | None = None
    late: bool | None = None
    start: str = ""
    origin: Origin = Origin()
    remark: str = ""
    tag: int = 0
    files: dict[str, File] = field(default_factory=dict)

    def beside(self) -> tuple[tuple[str, bytes | str], ...]:
        """The files by name: their bytes, or in a sentence why there are none."""
        return tuple(
            (name, _contents(file, modules.MOST_BYTES if name.endswith(".py") else MOST_BESIDE))
            for name, file in self.files.items()
        )

    @property
    def file_name(self) -> str:
        """The id as a safe file name, still unique, also where upper and lower case are
        one.
        """
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", self.id).lstrip(".")[:80]
        odd = safe != self.id or safe.endswith(".") or safe.partition(".")[0].lower() in _RESERVED
        digits = self.tag or (8 if odd or _TAGGED.fullmatch(safe) else 0)
        if not digits:
            return safe
        tag = hashlib.sha256(self.id.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
        return f"{safe or 'submission'}-{tag}"


@dataclass(frozen=True)
class Collected:
    """What was found where submissions are to lie.

    Attributes:
        handed: the submissions, one a student, sorted by id.
        left: whatever else lies there and was not taken for one: its name, and why in a
            sentence.
        sections: the folders that were read as holding several students' submissions.
    """

    handed: list[Handed]
    left: list[tuple[str, str]] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)

    @property
    def remarks(self) -> list[str]:
        """Sentences for the instructor on what was read how, and on what was not."""
        said = [
            f"{names.shown(name)[:80]} is read as a section: what lies in it is one student's each"
            for name in self.sections
        ]
        said += [
            f"{names.shown(name)[:80]} is not taken for a submission: {why}"
            for name, why in self.left[:SAID]
        ]
        if len(self.left) > SAID:
            said.append(f"{len(self.left) - SAID} others are not taken for submissions either")
        return said


def find(folder: Path, lab: str) -> list[Handed]:
    """All submissions, one a student, sorted by id: see :func:`collect`."""
    return collect(folder, lab).handed


def collect(folder: Path, lab: str, beside: Iterable[str] = ()) -> Collected:
    """All submissions in a folder, or in a class's zip as a system gives it; and what
    else is there.

    Args:
        beside: names of files that the lab asks for beside the notebook.

    Raises:
        FileNotFoundError: if the folder does not exist or holds no submission.
        ValueError: if Gradescope's metadata cannot be read.
    """
    if not folder.exists():
        raise FileNotFoundError(
            f"{folder} does not exist: give the folder that holds the submissions"
        )
    folder = folder.resolve()
    there, sections, metadata = layout.students(layout.top(folder))
    left: list[tuple[str, str]] = []
    items = []
    for place, entry in there:
        name = layout.name(entry, metadata)
        if name.known or layout.may_be_one(entry):
            items.append(
                (
                    entry,
                    name if name.known else replace(name, key=("name", f"{place}/{entry.name}")),
                )
            )
        else:
            left.append((f"{place}/{entry.name}" if place else entry.name, layout.why_not(entry)))
    groups = _groups(items)
    common = Counter(group.last[1].id for group in groups)
    found: dict[str, Handed] = {}
    for group in groups:
        last, name = group.last
        place = next(place for place, entry in there if entry is last)
        id = name.id if common[name.id] == 1 or not place or name.known else f"{place}/{name.id}"
        if id in found:
            id = last.name
        while id in found:
            id += "~"
        found[id] = _read(id, group, lab, beside)
    if not found:
        listed = "".join(f"; {names.shown(name)[:80]}: {why}" for name, why in left[:3])
        raise FileNotFoundError(
            f"{folder} holds no notebook, folder or zip: one of these per student is"
            f" expected{listed}"
        )
    _mark_clashes(list(found.values()))
    return Collected([found[id] for id in sorted(found)], left, sections)


@dataclass(frozen=True)
class _Group:
    """The files and folders that are one student's by their names. problem: why that
    cannot be relied on, in a sentence.
    """

    items: list[tuple[Entry, names.Name]]
    problem: str = ""

    @property
    def last(self) -> tuple[Entry, names.Name]:
        return max(self.items, key=lambda item: (item[1].stamp or 0, item[1].number or 0))

    @property
    def shown(self) -> str:
        return repr(names.shown(self.items[0][0].name)[:120])


def _groups(items: list[tuple[Entry, names.Name]]) -> list[_Group]:
    """Whose is what. Nobody's file stands in for another's: two that claim one person,
    and not alike, are both refused.
    """
    together: dict[tuple[object, ...], _Group] = {}
    for entry, name in items:
        group = together.setdefault((name.key, name.prefix), _Group([]))
        group.items.append((entry, name))
    groups: list[_Group] = []
    refused: list[_Group] = []
    for group in together.values():
        unsure = [item for item in group.items if item[1].unsure] if len(group.items) > 1 else []
        refused += [_Group([item], _UNSURE.format(claim=item[1].claims[0])) for item in unsure]
        if sure := [item for item in group.items if item not in unsure]:
            groups.append(_Group(sure))
    claimed: dict[str, list[_Group]] = {}
    for group in groups:
        for claim in dict.fromkeys(claim for _, name in group.items for claim in name.claims):
            claimed.setdefault(claim, []).append(group)
    problems = {
        id(group): _CLAIMED.format(mine=group.shown, theirs=other.shown, claim=claim)
        for claim, claiming in claimed.items()
        if len(claiming) > 1
        for group, other in zip(claiming, [*claiming[1:], claiming[0]], strict=True)
    }
    return [*(_Group(group.items, problems.get(id(group), "")) for group in groups), *refused]


_CLAIMED = (
    "{mine} and {theirs} both say by their names that they are of {claim}, and differ in the rest"
    " of what the system writes: neither is graded until one of them is taken away or renamed"
)
_UNSURE = (
    "its name can be read as {claim}'s or, further on, as another's, and {claim} has handed in"
    " something else, too: it is not graded until it is renamed"
)


def one(folder: Path, lab: str, id: str = "submission", beside: Iterable[str] = ()) -> Handed:
    """The submission of the one student whose files are in ``folder`` (or who handed in
    that file).
    """
    return _read(
        id, _Group([(on_disk(folder), names.Name(("name", id), id, folder.name))]), lab, beside
    )


def _mark_clashes(all: list[Handed]) -> None:
    """Make all file names differ: ``Ann.json`` and ``ann.json`` are one file on macOS
    and Windows.

    A name that needs no tag never looks like one that has one. So after the first round
    only tagged names can be alike, after the second, with the whole hash, none.
    """
    for digits in (8, 64):
        taken: dict[str, list[Handed]] = {}
        for h in all:
            taken.setdefault(h.file_name.lower(), []).append(h)
        for same in taken.values():
            if len(same) > 1:
                for h in same:
                    h.tag = digits


# --- which notebook counts ------------------------------------------------------------


@dataclass(frozen=True)
class _Notebook:
    """A notebook, or a zip that may hold one.

    Attributes:
        name: of the entry that it came in, as read. file: it; ``shown`` tells it from
            the student's others.
        stamp: when it was handed in, or its attempt's number, as its folder says or the
            system.
    """

    name: names.Name
    file: File
    stamp: float | None

    @property
    def shown(self) -> str:
        return self.file.shown

    @property
    def own(self) -> str:
        """The student's name for it."""
        return self.name.file or self.file.own


def _read(id: str, group: _Group, lab: str, beside: Iterable[str] = ()) -> Handed:
    """One student's submission, out of everything that is theirs."""
    if group.problem:  # whose it is, is not sure
        (_, name), *_ = group.items
        return Handed(
            id,
            problem=group.problem,
            submitters=[] if name.unsure else [dict(person) for person in name.who],
        )
    name, stamp = group.last[1], None
    packed: list[File] = []
    try:
        notebooks, others = _notebooks(group)
        chosen, choice = _choose(notebooks, lab)
        if chosen is not None:
            name, stamp = chosen.name, chosen.stamp
        if chosen is not None and chosen.file.suffix == ".zip":
            packed = of_a_student(chosen.file)
            if not name.known:
                _refuse_a_class(packed)
            inside = replace(name, file="", number=None)  # which are the zip's
            chosen, within = _choose(
                [_notebook(inside, f) for f in packed if f.suffix == ".ipynb"], lab
            )
            if chosen is None:
                raise Unreadable("the zip holds no notebook")
            choice = " ".join(part for part in (choice, within) if part)
        if chosen is None:
            what = f" ({', '.join(names.shown(o)[:60] for o in others[:3])})" if others else ""
            raise Unreadable(f"the {_kind(group)} holds no notebook{what}")
        result = handed(id, chosen.shown, chosen.file.data())
        result.choice = choice
        if not result.problem and (problem := another(lab, result.cells, result.origin)):
            result = replace(result, cells=[], digest="", problem=problem)
        result.remark = "" if result.problem else remark(lab, result.origin, released(lab))
        if not result.problem:
            inside = replace(name, file="", number=None)
            places = [_notebook(inside, f) for f in packed] or [
                f for f in _all(group) if f.file.suffix != ".zip"
            ]
            result.files = {
                wanted: file for wanted in beside if (file := _nearest(places, chosen, wanted))
            }
            own, more = _own_modules(places, chosen)
            result.files |= own
            result.remark = " ".join(filter(None, [result.remark, more]))
            if result.files:
                result.digest = _with_files(result.digest, result.beside())
    except Unreadable as error:
        result = Handed(id, problem=str(error))
    except (OSError, zlib.error) as error:
        result = Handed(
            id, problem=f"the file cannot be read ({getattr(error, 'strerror', None) or error})"
        )
    time = stamp if stamp is not None and stamp > ATTEMPTS else name.stamp
    who = [dict(person) for person in name.who]
    return replace(result, submitters=who, time=time, late=name.late, start=name.start)


def _kind(group: _Group) -> str:
    return "folder" if any(entry.folder for entry, _ in group.items) else "submission"


def _notebooks(group: _Group) -> tuple[list[_Notebook], list[str]]:
    """The notebooks (of an entry without one: the zips) of a student, and the names of
    what else is there.
    """
    found: list[_Notebook] = []
    others: list[str] = []
    for entry in group.items:
        files = _of(group, *entry)
        chosen = [f for s in (".ipynb", ".zip") for f in files if f.file.suffix == s]
        found += [f for f in chosen if f.file.suffix == chosen[0].file.suffix]
        others += [] if chosen else [f.name.file or f.file.shown for f in files]
    return found, others


def _all(group: _Group) -> list[_Notebook]:
    """Every file of a student."""
    return [file for entry in group.items for file in _of(group, *entry)]


def _of(group: _Group, entry: Entry, name: names.Name) -> list[_Notebook]:
    """The files of one entry."""
    if entry.folder:
        name = replace(name, file="")  # the files in it have their own
    # of several folders, which of them a file lies in is what tells it from the others
    place = f"{entry.name}/" if entry.folder and len(group.items) > 1 else ""
    return [_notebook(name, File(place + f.shown, f.time, f.data)) for f in entry.files()]


def _nearest(files: list[_Notebook], notebook: _Notebook, wanted: str) -> File | None:
    """Of the files of that name the one that was handed in with the notebook: of the
    same time, in the same folder; else the newest.
    """
    stem, _, suffix = wanted.rpartition(".")
    same = [
        f for f in files if f.file.suffix == f".{suffix}" and names.again(f.own)[0].lower() == stem
    ]

    if not same:
        return None
    return max(same, key=lambda f: _nearness(f, notebook, names.again(f.own)[1])).file


def _nearness(f: _Notebook, notebook: _Notebook, again: int) -> tuple[object, ...]:
    own = f.file.shown.rpartition("/")[0] == notebook.file.shown.rpartition("/")[0]
    return (
        f.stamp == notebook.stamp,
        own,
        f.name.number or 0,
        again,
        f.file.time,
        f.file.shown,
    )


def _own_modules(files: list[_Notebook], notebook: _Notebook) -> tuple[dict[str, File], str]:
    """The student's own ``.py`` files by the paths that the notebook imports, and a sentence if
    there are too many. Of several by one path the nearest, as in :func:`_nearest`.
    """
    folder = notebook.file.shown.rpartition("/")[0]
    found: dict[str, tuple[tuple[object, ...], File]] = {}
    for f in files:
        path, number = modules.name_of(f.file.shown, f.own, folder)
        near = _nearness(f, notebook, number)
        if path and (path not in found or found[path][0] < near):
            found[path] = near, f.file
    used, more = modules.nearest(found)
    return {path: found[path][1] for path in used}, more


MOST_BESIDE = 16 << 20  # bytes, of a file beside the notebook


def _contents(file: File, most: int) -> bytes | str:
    try:
        data = file.data()
    except (Unreadable, OSError, zlib.error) as error:
        return (
            f"{file.own[:80]} cannot be read"
            f" ({str(getattr(error, 'strerror', None) or error)[:200]})"
        )
    if len(data) > most:
        return (
            f"{file.own[:80]} has {len(data):,} bytes, of which at most {most:,} are read: no such"
            " file of this lab is nearly as large"
        )
    return data


def _with_files(digest: str, files: Iterable[tuple[str, bytes | str]]) -> str:
    """Of the code and of what is beside it."""
    whole = hashlib.sha256(digest.encode())
    for name, data in files:
        whole.update(name.encode())
        whole.update(
            hashlib.sha256(
                data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
            ).digest()
        )
    return whole.hexdigest()


def _notebook(name: names.Name, file: File) -> _Notebook:
    stamps = [s for part in file.folders if (s := names.stamp(part)) is not None]
    return _Notebook(name, file, stamps[-1] if stamps else name.stamp)


def _refuse_a_class(files: list[File]) -> None:
    """Is this zip one student's? That of a class is read where it is given itself, for
    anybody can make one.
    """
    read = [names.read(f.shown.split("/")[0], f.shown) for f in files]
    if len({name.key for name in read if name.known}) > 1:
        raise Unreadable(
            "the zip holds the submissions of several students: unzip it, or give it in place of"
            " the folder"
        )


def _choose(files: list[_Notebook], lab: str) -> tuple[_Notebook | None, str]:
    """The notebook that counts, and a sentence if there was a choice."""
    if len(files) < 2:
        return (files[0] if files else None), ""
    number = names.labs_in(lab)
    left = [f for f in files if not (labs := _labs(f)) or labs & number] or files
    why = "the only one that names no other lab" if len(left) == 1 else ""
    stamps = [f.stamp for f in left if f.stamp is not None]
    if stamps and any(f.stamp != max(stamps) for f in left):
        left = [f for f in left if f.stamp == max(stamps)]
        why = "the latest submission by its folder's name or its recorded time"
    ours = [f for f in left if _labs(f) & number]
    if ours and len(ours) < len(left):
        left, why = ours, f"{why}; in it the one that names {lab}" if why else f"it names {lab}"
    if len(left) > 1:
        left, how = _newest(left)
        why = f"{why}; in it {how}" if why else how
    chosen = left[-1]
    rest = sorted(f.shown for f in files if f is not chosen)
    listed = ", ".join(names.shown(name)[:80] for name in rest[:5]) + (
        f" and {len(rest) - 5} more" if len(rest) > 5 else ""
    )
    return (
        chosen,
        (
            f"{len(files)} notebooks were handed in; {names.shown(chosen.shown)[:80]} counts"
            f" ({why}). Not counted: {listed}."
        ),
    )


def _labs(file: _Notebook) -> set[int]:
    """The labs that a file's name speaks of; where it speaks of none, those of its
    folders.
    """
    return names.labs_in(file.own) or names.labs_in(file.shown.rpartition("/")[0])


def _newest(files: list[_Notebook]) -> tuple[list[_Notebook], str]:
    """The files, the newest last, and how that is known."""
    if all(f.name.number is not None for f in files) and len({f.name.number for f in files}) == len(
        files
    ):
        return (
            sorted(files, key=lambda f: f.name.number or 0),
            "the latest upload by the number in its name",
        )
    copies = [names.again(f.own) for f in files]
    if len({stem for stem, _ in copies}) == 1 and len({n for _, n in copies}) == len(files):
        return (
            sorted(files, key=lambda f: names.again(f.own)[1]),
            "the latest upload by the number in its name",
        )
    files = sorted(files, key=lambda f: (f.file.time, f.shown))
    when = datetime.fromtimestamp(files[-1].file.time, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return files, f"the newest by the file's own time, {when}"


def handed(id: str, name: str, data: bytes) -> Handed:
    """A submission from the bytes of a notebook."""
    try:
        notebook = ipynb.read(data)
        cells = ipynb.code(notebook)
    except Unreadable as error:
        return Handed(id, problem=str(error), notebook=name)
    digest = hashlib.sha256("\0".join(cells).encode("utf-8", "surrogatepass")).hexdigest()
    return Handed(id, cells, "", name, digest, origin=of(notebook))
