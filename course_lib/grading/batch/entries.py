"""What lies in a folder, or in a class's zip as a system gives it: names, and bytes
that nobody has checked.

Nothing is unpacked to disk. Links, pipes and devices are refused without being opened;
sizes are believed only as far as bytes have been read, whatever a zip's headers say.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from course_lib.grading.batch import zipnames
from course_lib.grading.batch.ipynb import Unreadable, is_notebook, text

MAX_BYTES = 100 << 20  # of one notebook, outputs included
MAX_ZIP_BYTES = 200 << 20  # of one student's zip
MAX_FILES = 20_000  # looked at in one student's folder or zip
MAX_LISTING = 64 << 20  # bytes, of the list of contents of a class's zip: some 300,000 files
MAX_DEPTH = 12
MAX_NESTED = 3  # zips in zips
MAX_ZIPS = 3_000  # opened in one student's zip
HEAD = 64  # bytes by which a file's form is known
_SUFFIXES = re.compile(
    r"(?:\.(?:ipynb|zip|7z|rar|tar|t?gz|bz2|xz|zst)(?:\.(?:txt|json|zip))?)+$", re.IGNORECASE
)
_PACKED = {  # first bytes: what packs like this
    b"Rar!\x1a\x07": "RAR",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "Zstandard",
}
# what is something else, zip or not
_OFFICE = {
    *(".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".pages", ".epub"),
    *(".jar", ".whl", ".npz", ".pt", ".pth", ".safetensors", ".bin"),
}
_RUBBISH = {".ds_store", "__macosx", "thumbs.db", "desktop.ini", ".ipynb_checkpoints"}


@dataclass(frozen=True)
class File:
    """A file of a submission.

    Attributes:
        path: its path in the submission. time: the file's own, seconds since 1970.
            data: reads it. start: reads its first :data:`HEAD` bytes.
    """

    path: str
    time: float
    data: Callable[[], bytes]
    start: Callable[[], bytes]

    @property
    def own(self) -> str:
        """Its name, as the student gave it."""
        return self.path.rpartition("/")[2]

    @property
    def folders(self) -> list[str]:
        return self.path.split("/")[:-1]

    @property
    def suffix(self) -> str:
        """ ".ipynb", whatever the case."""
        return Path(self.own).suffix.lower()

    @property
    def form(self) -> str:
        """What the file is by its content, whatever its name: "notebook", "zip", the
        name of another packing ("RAR"), or "".
        """
        if self.suffix in _OFFICE:
            return ""
        try:
            head = self.start()
        except Unreadable:
            head = b""
        if head.startswith(b"PK\x03\x04"):
            return "zip"
        if packed := next((name for sign, name in _PACKED.items() if head.startswith(sign)), ""):
            return packed
        if self.suffix in (".ipynb", ".zip"):  # whatever is wrong with it is said where it is read
            return "notebook" if self.suffix == ".ipynb" else "zip"
        try:
            return "notebook" if is_notebook(head, self.data) else ""
        except Unreadable:
            return ""


@dataclass(frozen=True)
class FolderEntry:
    """A file or folder at the top, on disk or in a zip.

    Attributes:
        name: of it, with its suffix. folder: is it one? children: what lies in it.
            file: itself, where it is a file; both may raise :class:`Unreadable`.
    """

    name: str
    folder: bool
    children: Callable[[], list[FolderEntry]]
    file: Callable[[], File]

    @property
    def suffix(self) -> str:
        """ ".ipynb", whatever the case; a folder has none."""
        return "" if self.folder else Path(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        """The name without ".ipynb", ".ipynb.txt", ".tar.gz" and the like."""
        return self.name if self.folder else _SUFFIXES.sub("", self.name) or Path(self.name).stem

    @property
    def form(self) -> str:
        """See :attr:`File.form`; a folder has none."""
        return "" if self.folder else self.file().form

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
            yield replace(file, path=path + self.name)
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


@contextmanager
def _as_unreadable() -> Iterator[None]:
    """Raises Unreadable instead of an error of the system."""
    try:
        yield
    except OSError as error:
        raise Unreadable(f"the file cannot be read ({error.strerror or error})") from None


# --- on disk --------------------------------------------------------------------------


def on_disk(path: Path) -> FolderEntry:
    """A file or folder. A link to a folder is one, too: it is refused later, in a
    sentence.
    """

    @_as_unreadable()
    def children() -> list[FolderEntry]:
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
    return FolderEntry(_name(os.fsencode(path.name)), folder, children, lambda: _file(path))


def _below(path: Path, folder: bool) -> FolderEntry:
    """What lies in a student's folder: a link there is no folder, for it is not
    followed.
    """
    entry = on_disk(path)
    return entry if entry.folder == folder else FolderEntry(entry.name, folder, list, entry.file)


@_as_unreadable()
def _file(path: Path) -> File:
    what, limit = _kind(path.name)
    return File(
        _name(os.fsencode(path.name)),
        path.lstat().st_mtime,
        lambda: read(path, what, limit),
        lambda: read(path, what, HEAD, whole=False),
    )


def _name(name: str | bytes) -> str:
    """A file's name as text, with composed accents (NFC), whatever system wrote it."""
    return unicodedata.normalize("NFC", text(name))


def _kind(name: str) -> tuple[str, int]:
    """What a file is called in a message, and how many bytes it may have."""
    suffix = Path(name).suffix.lower()
    if suffix == ".zip":
        return "the zip", MAX_ZIP_BYTES
    return "the notebook" if suffix == ".ipynb" else "the file", MAX_BYTES


def _too_large(what: str, limit: int) -> Unreadable:
    remedy = "" if what == "the file" else ": clear its outputs and hand it in again"
    return Unreadable(f"{what} is larger than {limit >> 20} MB{remedy}")


@_as_unreadable()
def read(path: Path, what: str, limit: int, whole: bool = True) -> bytes:
    """A regular file's bytes; nothing else is opened, and no link is followed.

    Args:
        what: the file is called in a message. whole: refuse a file of more bytes than
            ``limit``, rather than read that many.

    Raises:
        Unreadable: if it is something else, cannot be read, or has more bytes than
            ``limit``.
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
        data = file.read(limit + whole)
    if len(data) > limit:
        raise _too_large(what, limit)
    return data


# --- in a zip -------------------------------------------------------------------------


@contextmanager
def _as_unreadable_zip() -> Iterator[None]:
    """Raises Unreadable instead of what a broken zip raises."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
        EOFError,
        ValueError,
        OverflowError,
        OSError,
        zlib.error,
    ) as error:
        raise Unreadable(
            f"the zip cannot be read ({str(error)[:120]}): pack it again, or hand in the notebook"
            " alone"
        ) from None


@_as_unreadable_zip()
def of_a_class(path: Path) -> list[FolderEntry]:
    """What lies at the top of a class's zip. It is read where it lies, however large it
    is.

    Raises:
        Unreadable: if it is no zip, or its list of contents is too long.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - _END))
        _refuse_a_long_listing(file.read(), MAX_LISTING, alone=False)
    return _level([(_parts(file.path), file) for file in _files_in(path)])


def in_zip(file: File) -> list[FolderEntry]:
    """What lies at the top of a zip that a student may have handed in.

    Raises:
        Unreadable: if it cannot be read.
    """
    return _level([(_parts(inside.path), inside) for inside in of_a_student(file)])


@_as_unreadable_zip()
def of_a_student(file: File, nested: int = 0, opened: Iterator[int] | None = None) -> list[File]:
    """The files in a zip that a student handed in, and in zips in it; hidden ones are
    left out.

    Args:
        nested: how many zips it lies in. opened: counts all zips that are opened.

    Raises:
        Unreadable: if it cannot be read, if zips lie too deep in each other, or if it
            holds too many files or zips.
    """
    opened = opened or itertools.count(1)
    if nested > MAX_NESTED:
        raise Unreadable(
            f"more than {MAX_NESTED} zips lie in each other: hand in the notebook alone"
        )
    if next(opened) > MAX_ZIPS:
        raise _too_many()
    data = file.data()
    _refuse_a_long_listing(data, MAX_FILES * 200, alone=True)
    found: list[File] = []
    # not too many: the listing has been measured
    for inside in _files_in(io.BytesIO(data)):
        parts = inside.path.split("/")
        if any(p.startswith(".") and p not in (".", "..") or p == "__MACOSX" for p in parts):
            continue
        if inside.form == "zip":
            place = f"{inside.path}/"
            found += [
                replace(deeper, path=place + deeper.path)
                for deeper in of_a_student(inside, nested + 1, opened)
            ]
        elif not inside.path.endswith("/"):
            found.append(inside)
        if len(found) > 2 * MAX_FILES:  # with those of zips in it
            raise _too_many()
    return found


def _too_many() -> Unreadable:
    return Unreadable("the zip holds too many files: hand in the notebook alone")


def _files_in(place: Path | io.BytesIO) -> Iterator[File]:
    """What a zip lists; a folder's name ends in "/"."""
    archive = zipfile.ZipFile(place)
    infos = archive.infolist()
    for info, name in zip(infos, zipnames.decoded(infos), strict=True):
        yield _in_zip(archive, info, _name(name))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".", "..")]


def _level(inside: Sequence[tuple[list[str], File]]) -> list[FolderEntry]:
    """Entries out of paths: what has more parts lies in a folder."""
    folders: dict[str, list[tuple[list[str], File]]] = {}
    entries = []
    for parts, file in inside:
        if len(parts) > 1 or (parts and file.path.endswith("/")):
            folders.setdefault(parts[0], []).append((parts[1:], file))
        elif parts:
            entries.append(FolderEntry(parts[0], False, list, partial(replace, file)))
    for name, below in folders.items():
        deeper = [item for item in below if item[0]]
        entries.append(FolderEntry(name, True, partial(_level, deeper), _refuse_folder))
    return sorted(entries, key=lambda entry: entry.name)


def _refuse_folder() -> File:
    raise Unreadable("it is a folder")


def _in_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> File:
    what, limit = _kind(name)

    def read(limit: int, whole: bool = True) -> bytes:
        if stat.S_ISLNK(info.external_attr >> 16):
            raise Unreadable(f"{what} is a link to another file")
        if info.flag_bits & 1:
            raise Unreadable(
                "the zip is locked by a password: pack it again without one, or hand in the"
                " notebook alone"
            )
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # the others are unpacked without a limit: a few bytes could fill the memory
            raise Unreadable(
                "the zip is packed in an unusual way: pack it again with your system's own zip"
            )
        data = bytearray()
        with _as_unreadable_zip(), archive.open(info) as file:
            # never as much as the header says: it may lie
            while piece := file.read(min(1 << 16, limit - len(data) + whole)):
                data += piece
                if len(data) > limit:
                    raise _too_large(what, limit)
        return bytes(data)

    try:
        time = datetime(*info.date_time, tzinfo=UTC).timestamp()
    except ValueError:
        time = 0.0
    return File(name, time, lambda: read(limit), lambda: read(HEAD, whole=False))


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
            raise _too_many()
        at = tail.find(b"PK\x05\x06", at + 1)
