"""One student's submission, as it was collected."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from course_lib.grading.batch import modules
from course_lib.grading.batch.entries import File
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.origin import Origin
from course_lib.grading.marking.lab import Task

# of a submission that the tests do not mark
PENDING = "pending"  # a person has to look at it
REFUSED = "refused"  # it is not sure whose it is
UNCHANGED = "unchanged"  # the handout as it was given out
MOST_BESIDE = 16 << 20  # bytes, of a file beside the notebook
_TAGGED = re.compile(r".*-(?:[0-9a-f]{8}|[0-9a-f]{64})", re.IGNORECASE)
# on Windows
_RESERVED = {"con", "prn", "aux", "nul", *(f"{p}{i}" for p in ("com", "lpt") for i in range(1, 10))}


@dataclass
class Submission:
    """One student's submission.

    Attributes:
        id: the name of the file or folder (of an LMS's: the student's part of it),
            unique in the batch.
        cells: the source of the code cells; empty where the notebook could not be read.
        problem: why it could not be read, in a sentence; "" where it could.
        status: what the submission is, if the tests give it no points: :data:`PENDING`,
            :data:`REFUSED`, :data:`UNCHANGED`; "" where they decide alone.
        versions: other notebooks of the student that hold answers and may be the
            latest: the best of all counts.
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
        folder: the file or folder of the notebook, as it was found.
    """

    id: str
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    status: str = ""
    versions: list[Submission] = field(default_factory=list)
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
    folder: str = ""

    def tasks(self) -> list[Task]:
        """What is to be marked: the notebook, and other versions that may count."""
        return [
            Task(self.id, tuple(h.cells), h.problem, h.beside(), version)
            for version, h in enumerate([self, *self.versions])
        ]

    def version(self, counted: int) -> Submission:
        """The version that counts, by its number among :meth:`tasks`."""
        return [self, *self.versions][counted]

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


def separate_file_names(all: Iterable[Submission]) -> None:
    """Make all file names differ: ``Ann.json`` and ``ann.json`` are one file on macOS
    and Windows.

    A name that needs no tag never looks like one that has one, and two whole hashes differ:
    one round is enough.
    """
    taken: dict[str, list[Submission]] = {}
    for h in all:
        taken.setdefault(h.file_name.lower(), []).append(h)
    for same in taken.values():
        if len(same) > 1:
            for h in same:
                h.tag = 64


def _contents(file: File, most: int) -> bytes | str:
    try:
        data = file.data()
    except Unreadable as error:
        return f"{file.own[:80]} cannot be read ({str(error)[:200]})"
    if len(data) > most:
        return (
            f"{file.own[:80]} has {len(data):,} bytes, of which at most {most:,} are read: no such"
            " file of this lab is nearly as large"
        )
    return data
