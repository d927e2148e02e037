"""Finds the submissions in a folder: notebooks, or one folder or zip per student. Reads text only; runs and unpacks nothing.

What is handed in may be hostile: links, pipes and devices are refused without being opened, sizes are believed only as
far as bytes have been read, and whatever is wrong with one student's files is that student's problem, in a sentence.

Of several notebooks of one student one counts. Those that name another lab are left out; of what is left, the newest
*submission* (a folder ``2024-05-01T10-11-12``, "attempt 2", nbgrader's or Gradescope's time); in it the notebook that
names this lab; then the newest by the number that Canvas or an upload of the same name adds, else by the file's time.
:attr:`Handed.choice` says which and why. Files are one student's only where a learning management system's name or the
student's own folder says so (:mod:`course_lib.grading.names`).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from course_lib.grading import ipynb, names
from course_lib.grading.ipynb import Unreadable, text

MAX_BYTES = 100 << 20  # of one notebook, outputs included
MAX_ZIP_BYTES = 200 << 20
MAX_FILES = 20_000  # looked at in one student's folder or zip
MAX_DEPTH = 12
METADATA = "submission_metadata.yml"  # of Gradescope's export
_TAGGED = re.compile(r".*-(?:[0-9a-f]{8}|[0-9a-f]{64})", re.IGNORECASE)
_RESERVED = {"con", "prn", "aux", "nul", *(f"{p}{i}" for p in ("com", "lpt") for i in range(1, 10))}  # on Windows


@dataclass
class Handed:
    """One student's submission.

    Attributes:
        id: the name of the file or folder (of an LMS's: the student's part of it), unique in the batch.
        cells: the source of the code cells; empty where the notebook could not be read.
        problem: why it could not be read, in a sentence; "" where it could.
        notebook: which file was taken. digest: of its code, so that a changed submission is graded again.
        choice: of several notebooks, which one counts and why, in a sentence; "" where there was one.
        submitters: what the names say of the student (several for group work), by the columns of a roster.
        tag: how many digits of a hash its file name must have, for without them it is another's, too.
    """

    id: str
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    notebook: str = ""
    digest: str = ""
    choice: str = ""
    submitters: list[dict[str, str]] = field(default_factory=list)
    tag: int = 0

    @property
    def file_name(self) -> str:
        """The id as a safe file name, still unique, also where upper and lower case are one."""
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", self.id).lstrip(".")[:80]
        odd = safe != self.id or safe.endswith(".") or safe.partition(".")[0].lower() in _RESERVED
        digits = self.tag or (8 if odd or _TAGGED.fullmatch(safe) else 0)
        if not digits:
            return safe
        tag = hashlib.sha256(self.id.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
        return f"{safe or 'submission'}-{tag}"

    @property
    def skipped(self) -> set[str]:
        """The questions given up by ``skip("1.3")``, on a line of its own: one look a line, whatever is in the cell."""
        call = re.compile(r"""^[ \t]*skip\([ \t]*["']([\d.]+)["'][ \t]*\)""", re.MULTILINE)
        return {q for cell in self.cells for q in call.findall(cell)}


def find(folder: Path, lab: str) -> list[Handed]:
    """All submissions in ``folder``, one a student, sorted by id.

    Raises:
        FileNotFoundError: if the folder does not exist or holds no submission.
        ValueError: if it is one zip with several students' submissions, or Gradescope's metadata cannot be read.
    """
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist: give the folder that holds the submissions")
    folder = folder.resolve()
    if folder.is_dir():
        folder, entries = _entries(folder)
        metadata = _metadata(folder / METADATA)
    else:
        entries, metadata = [folder], None
        _refuse_a_whole_class(folder)
    items = []
    for entry in entries:
        name = names.read(text(os.fsencode(entry.name)), text(os.fsencode(_id_of(entry))), metadata, _is_dir(entry))
        if name.known or entry.suffix.lower() in (".ipynb", ".zip") or _is_dir(entry):
            items.append((entry, name))
    found: dict[str, Handed] = {}
    for group in _groups(items):
        last, name = group.last
        id = name.id if name.id not in found else text(os.fsencode(last.name))
        while id in found:
            id += "~"
        found[id] = _read(id, group, lab)
    if not found:
        raise FileNotFoundError(f"{folder} holds no notebook, folder or zip: one of these per student is expected")
    _mark_clashes(list(found.values()))
    return [found[id] for id in sorted(found)]


@dataclass(frozen=True)
class _Group:
    """The files and folders that are one student's by their names. problem: why that cannot be relied on, in a sentence."""

    items: list[tuple[Path, names.Name]]
    problem: str = ""

    @property
    def last(self) -> tuple[Path, names.Name]:
        return max(self.items, key=lambda item: (item[1].stamp or 0, item[1].number or 0))

    @property
    def shown(self) -> str:
        return repr(names.shown(text(os.fsencode(self.items[0][0].name)))[:120])


def _groups(items: list[tuple[Path, names.Name]]) -> list[_Group]:
    """Whose is what. Nobody's file stands in for another's: two that claim one person, and not alike, are both refused."""
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
    "{mine} and {theirs} both say by their names that they are of {claim}, and differ in the rest of what the system writes: "
    "neither is graded until one of them is taken away or renamed"
)
_UNSURE = (
    "its name can be read as {claim}'s or, further on, as another's, and {claim} has handed in something else, too: it is not "
    "graded until it is renamed"
)


def one(folder: Path, lab: str, id: str = "submission") -> Handed:
    """The submission of the one student whose files are in ``folder`` (or who handed in that file)."""
    return _read(id, _Group([(folder, names.Name(("name", id), id, folder.name))]), lab)


def _entries(folder: Path) -> tuple[Path, list[Path]]:
    """What lies in a folder, by name; of a folder that holds nothing but Gradescope's export, what lies in that."""
    entries = sorted(p for p in folder.iterdir() if not p.name.startswith((".", "__")))
    if len(entries) == 1 and _is_dir(entries[0]) and (entries[0] / METADATA).is_file():
        return _entries(entries[0])
    return folder, entries


def _is_dir(path: Path) -> bool:
    """A folder, or a link to one: the link is refused later, in a sentence."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _id_of(entry: Path) -> str:
    return entry.name if _is_dir(entry) else entry.stem


def _mark_clashes(all: list[Handed]) -> None:
    """Make all file names differ: ``Ann.json`` and ``ann.json`` are one file on macOS and Windows.

    A name that needs no tag never looks like one that has one. So after the first round only tagged names can be alike, after
    the second, with the whole hash, none.
    """
    for digits in (8, 64):
        taken: dict[str, list[Handed]] = {}
        for h in all:
            taken.setdefault(h.file_name.lower(), []).append(h)
        for same in taken.values():
            if len(same) > 1:
                for h in same:
                    h.tag = digits


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Gradescope writes it: Ruby's symbols are strings, its objects what they hold."""


def _ruby(loader: Any, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node)
    return loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else node.value


_Loader.add_multi_constructor("!ruby/", _ruby)


def _metadata(path: Path) -> dict[str, Any] | None:
    """Gradescope's list of who handed in what, where the folder is its export."""
    if not path.is_file():
        return None
    try:
        read = yaml.load(_bytes(path, "the list of submissions", MAX_ZIP_BYTES), Loader=_Loader)
    except (yaml.YAMLError, Unreadable, OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read ({' '.join(str(error).split())[:200]}): download Gradescope's export again, or delete this file "
            "to grade without the students' names"
        ) from None
    return read if isinstance(read, dict) else {}


# --- which notebook counts -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A notebook, or a zip that may hold one: ``shown`` is its path for the student, ``data()`` its bytes."""

    shown: str
    own: str  # the student's name for it
    time: float  # the file's, seconds since 1970
    data: Callable[[], bytes]
    number: int | None = None  # of the upload, as Canvas counts
    stamp: float | None = None  # of the submission, as its folder says


def _read(id: str, group: _Group, lab: str) -> Handed:
    """One student's submission, out of everything that is theirs."""
    who = [dict(person) for _, name in group.items[:1] for person in name.who if not name.unsure or not group.problem]
    files: list[_File] = []
    others: list[str] = []
    try:
        if group.problem:
            raise Unreadable(group.problem)
        for entry, name in group.items:
            found, rest = _files_of(entry, name)
            files += found
            others += rest
        chosen, choice = _choose(files, lab)
        if chosen is None:
            what = f" ({', '.join(names.shown(o)[:60] for o in others[:3])})" if others else ""
            return Handed(id, problem=f"the {_kind(group)} holds no notebook{what}", submitters=who)
        if chosen.own.lower().endswith(".zip"):
            inside = _files_in_zip(chosen)
            chosen, within = _choose(inside, lab)
            if chosen is None:
                return Handed(id, problem="the zip holds no notebook", submitters=who)
            choice = " ".join(part for part in (choice, within) if part)
        result = handed(id, chosen.shown, chosen.data())
    except Unreadable as error:
        return Handed(id, problem=str(error), submitters=who)
    except (OSError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        return Handed(id, problem=f"the file cannot be read ({why})", submitters=who)
    result.choice, result.submitters = choice, who
    return result


def _kind(group: _Group) -> str:
    return "folder" if any(_is_dir(entry) for entry, _ in group.items) else "submission"


def _choose(files: list[_File], lab: str) -> tuple[_File | None, str]:
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
        f"{len(files)} notebooks were handed in; {names.shown(chosen.shown)[:80]} counts ({why}). Not counted: {listed}.",
    )


def _labs(file: _File) -> set[int]:
    """The labs that a file's name speaks of; where it speaks of none, those of its folders."""
    return names.labs_in(file.own) or names.labs_in(file.shown.rpartition("/")[0])


def _newest(files: list[_File]) -> tuple[list[_File], str]:
    """The files, the newest last, and how that is known."""
    if all(f.number is not None for f in files) and len({f.number for f in files}) == len(files):
        return sorted(files, key=lambda f: f.number or 0), "the latest upload by the number in its name"
    copies = [names.again(f.own) for f in files]
    if len({stem for stem, _ in copies}) == 1 and len({n for _, n in copies}) == len(files):
        return sorted(files, key=lambda f: names.again(f.own)[1]), "the latest upload by the number in its name"
    files = sorted(files, key=lambda f: (f.time, f.shown))
    when = datetime.fromtimestamp(files[-1].time, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return files, f"the newest by the file's own time, {when}"


def _files_of(entry: Path, name: names.Name) -> tuple[list[_File], list[str]]:
    """The notebooks (where there are none: the zips) of one file or folder, and the names of what else is there."""
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise Unreadable("it is a link to another place: only files and folders themselves are read")
    if not stat.S_ISDIR(mode):
        own = name.file or text(os.fsencode(entry.name))
        file = _on_disk(entry, text(os.fsencode(entry.name)), own, name)
        return ([file], []) if entry.suffix.lower() in (".ipynb", ".zip") else ([], [own])
    inside = [(path, text(os.fsencode(path.relative_to(entry).as_posix()))) for path in _walk(entry)]
    for suffix in (".ipynb", ".zip"):
        chosen = [
            _on_disk(path, shown, shown.rpartition("/")[2], name)
            for path, shown in inside
            if path.suffix.lower() == suffix
        ]
        if chosen:
            return chosen, []
    return [], [shown for _, shown in inside]


def _on_disk(path: Path, shown: str, own: str, name: names.Name) -> _File:
    stamps = [s for part in shown.split("/")[:-1] if (s := names.stamp(part)) is not None]
    when = stamps[-1] if stamps else name.stamp
    return _File(shown, own, path.lstat().st_mtime, lambda: _bytes(path, "the notebook", MAX_BYTES), name.number, when)


def _walk(folder: Path, depth: int = 0, seen: list[int] | None = None) -> Iterator[Path]:
    """The files below a folder, in order; links are not followed, hidden things are left out."""
    seen = seen if seen is not None else [0]
    if depth > MAX_DEPTH:
        raise Unreadable(f"the folders lie more than {MAX_DEPTH} deep: hand in the notebook alone")
    with os.scandir(folder) as scan:
        entries = []
        for entry in scan:
            seen[0] += 1
            if seen[0] > MAX_FILES:
                raise Unreadable(f"there are more than {MAX_FILES} files: hand in the notebook alone")
            entries.append(entry)
    for entry in sorted(entries, key=lambda e: e.name):
        if entry.name.startswith(".") or entry.name == "__MACOSX":
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), depth + 1, seen)
        else:
            yield Path(entry.path)


# --- reading bytes that nobody has checked -------------------------------------------------------------------------


def _bytes(path: Path, what: str, limit: int) -> bytes:
    """A regular file's bytes, at most ``limit``; nothing else is opened, and no link is followed."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise Unreadable(f"{what} is a link to another file")
    if not stat.S_ISREG(mode):
        raise Unreadable(f"{what} is no regular file, but a pipe, a device or a socket")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # exchanged since we looked
            raise Unreadable(f"{what} is no regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"{what} is larger than {limit >> 20} MB: clear its outputs and hand it in again")
    return data


_ZIP_ERRORS = (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError, OverflowError, zlib.error)


def _files_in_zip(file: _File) -> list[_File]:
    """The notebooks in a zip; nothing is unpacked to disk, whatever their paths say."""
    try:
        data = file.data()
        _refuse_huge_listing(data)
        archive = zipfile.ZipFile(io.BytesIO(data))
        found = []
        for info in archive.infolist():  # not too many: the listing has been measured
            parts = info.filename.split("/")
            if info.filename.lower().endswith(".ipynb") and not any(
                p.startswith(".") and p not in (".", "..") or p == "__MACOSX" for p in parts
            ):
                found.append(_in_zip(archive, info))
        return found
    except _ZIP_ERRORS as error:
        raise Unreadable(f"the zip cannot be read ({str(error)[:120]})") from None


def _in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _File:
    def data() -> bytes:
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Unreadable("the notebook is a link to another file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # the others are unpacked without a limit: a few bytes could fill the memory
            raise Unreadable("the zip is packed in an unusual way: pack it again with your system's own zip")
        read = bytearray()
        try:
            with archive.open(info) as file:
                while piece := file.read(1 << 16):  # never as much as the header says: it may lie
                    read += piece
                    if len(read) > MAX_BYTES:
                        raise Unreadable(
                            f"the notebook is larger than {MAX_BYTES >> 20} MB: clear its outputs and hand it in again"
                        )
        except _ZIP_ERRORS as error:
            raise Unreadable(f"the zip cannot be read ({str(error)[:120]})") from None
        return bytes(read)

    shown = text(info.filename)
    stamps = [s for part in shown.split("/")[:-1] if (s := names.stamp(part)) is not None]
    try:
        time = datetime(*info.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        time = 0.0
    return _File(shown, shown.rpartition("/")[2], time, data, stamp=stamps[-1] if stamps else None)


def _refuse_huge_listing(data: bytes) -> None:
    """A zip's list of contents is read whole by ``zipfile``: look at its size first, wherever its record may be."""
    tail = data[-(22 + 65535) :]
    at = tail.find(b"PK\x05\x06")
    while at >= 0:
        if (
            int.from_bytes(tail[at + 12 : at + 16], "little") > MAX_FILES * 200
            or tail[max(0, at - 20) : at - 16] == b"PK\x06\x07"
        ):
            raise Unreadable("the zip holds too many files: hand in the notebook alone")
        at = tail.find(b"PK\x05\x06", at + 1)


def _refuse_a_whole_class(path: Path) -> None:
    """A zip as downloaded from Canvas or Moodle is not one student's submission."""
    if path.suffix.lower() != ".zip":
        return
    try:
        inside = _files_in_zip(_File(path.name, path.name, 0, lambda: _bytes(path, "the zip", MAX_ZIP_BYTES)))
    except (Unreadable, OSError):
        return
    read = [names.read(f.shown.split("/")[0], f.shown) for f in inside]
    if len({name.key for name in read if name.known}) > 1:
        raise ValueError(f"{path} holds the submissions of several students: unzip it, and give the folder")


def handed(id: str, name: str, data: bytes) -> Handed:
    """A submission from the bytes of a notebook."""
    try:
        cells = ipynb.code(ipynb.read(data))
    except Unreadable as error:
        return Handed(id, problem=str(error), notebook=name)
    return Handed(id, cells, "", name, hashlib.sha256("\0".join(cells).encode("utf-8", "surrogatepass")).hexdigest())
