"""What lies in a folder, or in a class's zip as a system gives it: names, and bytes
that nobody has checked.

Nothing is unpacked to disk. Links, pipes and devices are refused without being opened;
sizes are believed only as far as bytes have been read, whatever a zip's headers say.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from course_lib.grading.batch.ipynb import Unreadable, text

MAX_BYTES = 100 << 20  # of one notebook, outputs included
MAX_ZIP_BYTES = 200 << 20  # of one student's zip
MAX_FILES = 20_000  # looked at in one student's folder or zip
MAX_LISTING = 64 << 20  # bytes, of the list of contents of a class's zip: some 300,000 files
MAX_DEPTH = 12
_RUBBISH = {".ds_store", "__macosx", "thumbs.db", "desktop.ini", ".ipynb_checkpoints"}


@dataclass(frozen=True)
class File:
    """A file of a submission.

    Attributes:
        shown: its path in the submission. time: the file's own, seconds since 1970.
            data: reads it.
    """

    shown: str
    time: float
    data: Callable[[], bytes]

    @property
    def own(self) -> str:
        """Its name, as the student gave it."""
        return self.shown.rpartition("/")[2]

    @property
    def folders(self) -> list[str]:
        return self.shown.split("/")[:-1]

    @property
    def suffix(self) -> str:
        """ ".ipynb", whatever the case."""
        return Path(self.own).suffix.lower()


@dataclass(frozen=True)
class Entry:
    """A file or folder at the top, on disk or in a zip.

    Attributes:
        name: of it, with its suffix. folder: is it one? children: what lies in it.
            file: itself, where it is a file; both may raise :class:`Unreadable`.
    """

    name: str
    folder: bool
    children: Callable[[], list[Entry]]
    file: Callable[[], File]

    @property
    def suffix(self) -> str:
        """ ".ipynb", whatever the case; a folder has none."""
        return "" if self.folder else Path(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        return self.name if self.folder else Path(self.name).stem

    @property
    def hidden(self) -> bool:
        return self.name.startswith((".", "__MACOSX"))

    @property
    def rubbish(self) -> bool:
        """Does a system or an editor leave it, unasked?"""
        return self.name.lower() in _RUBBISH or self.name.startswith("._")

    def files(self) -> list[File]:
        """All files in it, or itself; hidden ones are left out.

        Raises:
            Unreadable: if there are too many, too deep, or it is a link.
        """
        return list(self._files("", 0, [0]))

    def _files(self, path: str, depth: int, seen: list[int]) -> Iterator[File]:
        if not self.folder:
            file = self.file()
            yield File(path + self.name, file.time, file.data)
            return
        if depth > MAX_DEPTH:
            raise Unreadable(
                f"the folders lie more than {MAX_DEPTH} deep: hand in the notebook alone"
            )
        for child in self.children():
            seen[0] += 1
            if seen[0] > MAX_FILES:
                raise Unreadable(
                    f"there are more than {MAX_FILES} files: hand in the notebook alone"
                )
            if not child.hidden:
                yield from child._files(f"{path}{self.name}/" if depth else "", depth + 1, seen)


def _none() -> list[Entry]:
    return []


# --- on disk --------------------------------------------------------------------------


def on_disk(path: Path) -> Entry:
    """A file or folder. A link to a folder is one, too: it is refused later, in a
    sentence.
    """

    def children() -> list[Entry]:
        if path.is_symlink():
            raise Unreadable(
                "it is a link to another place: only files and folders themselves are read"
            )
        with os.scandir(path) as scan:
            inside = []
            for found in scan:
                inside.append(_below(Path(found.path), found.is_dir(follow_symlinks=False)))
                if len(inside) > MAX_FILES + 1:  # enough to be refused
                    break
        return sorted(inside, key=lambda entry: entry.name)

    try:
        folder = path.is_dir()
    except OSError:
        folder = False
    return Entry(text(os.fsencode(path.name)), folder, children, lambda: _file(path))


def _below(path: Path, folder: bool) -> Entry:
    """What lies in a student's folder: a link there is no folder, for it is not
    followed.
    """
    entry = on_disk(path)
    return entry if entry.folder == folder else Entry(entry.name, folder, _none, entry.file)


def _file(path: Path) -> File:
    return File(
        text(os.fsencode(path.name)), path.lstat().st_mtime, lambda: read(path, *_kind(path.name))
    )


def _kind(name: str) -> tuple[str, int]:
    """What a file is called in a message, and how many bytes it may have."""
    suffix = Path(name).suffix.lower()
    if suffix == ".zip":
        return "the zip", MAX_ZIP_BYTES
    return "the notebook" if suffix == ".ipynb" else "the file", MAX_BYTES


def _too_large(what: str, limit: int) -> Unreadable:
    remedy = "" if what == "the file" else ": clear its outputs and hand it in again"
    return Unreadable(f"{what} is larger than {limit >> 20} MB{remedy}")


def read(path: Path, what: str, limit: int) -> bytes:
    """A regular file's bytes; nothing else is opened, and no link is followed.

    Raises:
        Unreadable: if it is something else, or has more bytes than ``limit``.
    """
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise Unreadable(f"{what} is a link to another file")
    if not stat.S_ISREG(mode):
        raise Unreadable(f"{what} is no regular file, but a pipe, a device or a socket")
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_BINARY", 0)
    )
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # exchanged since we looked
            raise Unreadable(f"{what} is no regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(what, limit)
    return data


# --- in a zip -------------------------------------------------------------------------

_ZIP_ERRORS = (
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    EOFError,
    ValueError,
    OverflowError,
    zlib.error,
)


def of_a_class(path: Path) -> list[Entry]:
    """What lies at the top of a class's zip. It is read where it lies, however large it
    is.

    Raises:
        Unreadable: if it is no zip, or its list of contents is too long.
    """
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            file.seek(max(0, size - _END))
            _refuse_a_long_listing(file.read(), MAX_LISTING, alone=False)
        return _level([(_parts(info), _in_zip(archive, info)) for archive, info in _infos(path)])
    except _ZIP_ERRORS as error:
        raise Unreadable(f"the zip cannot be read ({str(error)[:120]})") from None


def of_a_student(file: File) -> list[File]:
    """The files in a zip that somebody handed in; hidden ones are left out.

    Raises:
        Unreadable: if it cannot be read.
    """
    try:
        data = file.data()
        _refuse_a_long_listing(data, MAX_FILES * 200, alone=True)
        found = []
        # not too many: the listing has been measured
        for archive, info in _infos(io.BytesIO(data)):
            hidden = any(
                p.startswith(".") and p not in (".", "..") or p == "__MACOSX"
                for p in info.filename.split("/")
            )
            if not hidden and not info.is_dir():
                found.append(_in_zip(archive, info))
        return found
    except _ZIP_ERRORS as error:
        raise Unreadable(f"the zip cannot be read ({str(error)[:120]})") from None


def _infos(place: Path | io.BytesIO) -> Iterator[tuple[zipfile.ZipFile, zipfile.ZipInfo]]:
    archive = zipfile.ZipFile(place)
    yield from ((archive, info) for info in archive.infolist())


def _parts(info: zipfile.ZipInfo) -> list[str]:
    return [text(part) for part in info.filename.split("/") if part not in ("", ".", "..")]


def _level(inside: Sequence[tuple[list[str], File]]) -> list[Entry]:
    """Entries out of paths: what has more parts lies in a folder."""
    folders: dict[str, list[tuple[list[str], File]]] = {}
    entries = []
    for parts, file in inside:
        if len(parts) > 1 or (parts and file.shown.endswith("/")):
            folders.setdefault(parts[0], []).append((parts[1:], file))
        elif parts:
            entries.append(_leaf(parts[0], file))
    entries += [
        _branch(name, [item for item in below if item[0]]) for name, below in folders.items()
    ]
    return sorted(entries, key=lambda entry: entry.name)


def _leaf(name: str, file: File) -> Entry:
    return Entry(name, False, _none, lambda: file)


def _branch(name: str, below: list[tuple[list[str], File]]) -> Entry:
    def file() -> File:
        raise Unreadable("it is a folder")

    return Entry(name, True, lambda: _level(below), file)


def _in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> File:
    what, limit = _kind(info.filename)

    def data() -> bytes:
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Unreadable(f"{what} is a link to another file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # the others are unpacked without a limit: a few bytes could fill the memory
            raise Unreadable(
                "the zip is packed in an unusual way: pack it again with your system's own zip"
            )
        read = bytearray()
        try:
            with archive.open(info) as file:
                while piece := file.read(1 << 16):  # never as much as the header says: it may lie
                    read += piece
                    if len(read) > limit:
                        raise _too_large(what, limit)
        except _ZIP_ERRORS as error:
            raise Unreadable(f"the zip cannot be read ({str(error)[:120]})") from None
        return bytes(read)

    try:
        time = datetime(*info.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        time = 0.0
    return File(text(info.filename), time, data)


# bytes: the record at a zip's end, the longest remark, and the records of a huge zip
# before it
_END = 22 + 65535 + 76


def _refuse_a_long_listing(data: bytes, limit: int, alone: bool) -> None:
    """A zip's list of contents is read whole by ``zipfile``: look at its size first,
    wherever its record may be.

    Args:
        data: the zip, or its end. limit: of bytes. alone: is it one student's? Those
            have no use for the form for huge zips.
    """
    tail = data[-_END:]
    at = tail.find(b"PK\x05\x06")
    while at >= 0:
        size = int.from_bytes(tail[at + 12 : at + 16], "little")
        if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07":
            size = (
                limit + 1 if alone or at < 76 else int.from_bytes(tail[at - 36 : at - 28], "little")
            )
        if size > limit:
            raise Unreadable("the zip holds too many files: hand in the notebook alone")
        at = tail.find(b"PK\x05\x06", at + 1)
