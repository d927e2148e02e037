"""The platforms that submissions come from, and the names of files and folders as each
platform writes them.

Only names that a learning management system or a collecting tool wrote are believed;
two files that merely look alike (``smith.ipynb`` and ``smith-2.ipynb``) may be two
people's, and stay two submissions.

Sources of the patterns:

- Canvas, ``doejane_LATE_12345_67890_lab01-1.ipynb`` (name, LATE, user, attachment, the
  student's own name; Canvas adds -1, -2 when a file is handed in again;
  ``doejane_12345_text.html`` is what was typed in), ``anon_a1B2c_67890_lab01.ipynb``
  where grading is anonymous: ``get_filename`` and ``add_upload_submission`` in
  https://github.com/instructure/canvas-lms/blob/master/lib/content_zipper.rb. Names are
  letters with their marks, digits and underscores there (Ruby's ``[[:word:]]``; none
  where a name has only other signs), and who is called ``a___12___34___b`` gets the
  start ``a__12__34__b_``: such a name has two readings.
- Moodle, ``Jane Doe_1234567_assignsubmission_file_`` (a folder, or the start of a
  file's name; the name's own underscores are blanks there, so the first number is
  Moodle's and what follows is the student's): ``get_student_prefix`` in
  https://github.com/moodle/moodle/blob/main/mod/assign/classes/downloader.php
- Gradescope, ``submission_123456789`` folders beside a ``submission_metadata.yml`` with
  ``:submitters:`` and ``:created_at:``: its "Export Submissions"; Gradescope describes
  the file nowhere, the keys are those that public tools read
- nbgrader, ``jdoe+lab01+2024-05-01 10:11:12 UTC``:
  https://github.com/jupyter/nbgrader/blob/main/nbgrader/exchange/default/submit.py

To add a platform, write a function that reads its names and list it in :data:`READERS`.
The function returns a :class:`Name`, or None for a name that the platform did not write.
Two names with the same ``key`` (platform, who) are one student's. Test it in
tests/grading/test_submissions.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import regex as re  # knows letters' marks, \p{M}, which the standard library's does not
import yaml

from course_lib.grading.batch.entries import FolderEntry
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.names import normalize_name, parse_timestamp

METADATA = "submission_metadata.yml"  # of Gradescope's export
Metadata = dict[str, Any] | None  # what it holds, where it is there

# A class's own scheme, "hw_2024_17_final.ipynb" or "lab01_12_3_x.ipynb", must not be
# taken for one student's many files: the user is no year, and where the name is more
# than letters (a group's has digits) Canvas's numbers are long.
_CANVAS = re.compile(
    r"(?:(?P<name>[\p{L}\p{M}]+)(?P<late>_late)?_(?!(?:19|20)\d\d_)(?P<user>\d+)_"
    r"(?:(?P<number>\d+)_(?P<file>.+)|(?P<typed>(?:text|link)\.html))"
    r"|(?P<name>(?:[\p{Nd}\p{Pc}]*\p{L}[\p{L}\p{M}\p{Nd}\p{Pc}]*?)??)(?P<late>_late)?"
    r"_(?!(?:19|20)\d\d_)(?P<user>\d{4,})_"
    r"(?:(?P<number>\d{5,})_(?P<file>.+)|(?P<typed>(?:text|link)\.html)))",
    re.IGNORECASE | re.DOTALL,
)
_ANON = re.compile(
    r"(?P<late>late_)?(?P<name>anon_[a-z0-9]{5})_(?:(?P<number>\d+)_(?P<file>.+)|(?P<typed>(?:text|link)\.html))",
    re.IGNORECASE | re.DOTALL,
)
_CANVAS_NUMBERS = re.compile(r"(?=_(?!(?:19|20)\d\d_)([1-9]\d*)_([1-9]\d*)_)")
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?", re.DOTALL
)
_GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")
_NBGRADER = re.compile(
    r"(?P<student>.+?)\+(?P<lab>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d[^+]*(?:\+\d\d:?\d\d)?)(?:\+.*)?"
)


@dataclass(frozen=True)
class Name:
    """One name, read.

    Attributes:
        key: the platform, "name" where no platform wrote it, and the student's number or
            name there. id: how that student's submission is called in tables.
        file: the student's own file name. number: of the upload, larger = later; None
            where the name has none.
        stamp: when it was handed in (seconds since 1970, UTC), or None.
        who: what is known of the student, by the column names of a roster ("canvas id",
            "moodle id", "name", "email", "sid").
        prefix: what the platform wrote beside the key, the student's name say. Where it
            differs, so may the students.
        unsure: could the student's own part have posed as the platform's?
        late: does the platform say that it came late, or in time? None where it says
            neither.
        start: what Canvas wrote before the student's file name, with the numbers by
            which it takes files back.
    """

    key: tuple[str, str]
    id: str
    file: str = ""
    number: int | None = None
    stamp: float | None = None
    who: tuple[dict[str, str], ...] = ()
    prefix: str = ""
    unsure: bool = False
    late: bool | None = None
    start: str = ""

    @property
    def known(self) -> bool:
        """Did a platform write this name?"""
        return self.key[0] != "name"


def read(entry: FolderEntry, metadata: dict[str, Any] | None = None) -> Name:
    """What the name of an entry says of whose it is: see :func:`read_name`."""
    return read_name(entry.name, entry.stem, entry.folder, metadata)


def read_name(
    name: str, id: str, folder: bool = True, metadata: dict[str, Any] | None = None
) -> Name:
    """Read the name of a file or folder: from the left, for there the platform's part
    begins. Composed and decomposed accents (NFC, NFD) are the same name.

    Args:
        name: with its suffix. id: what to call the submission where the name says
            nothing.
        folder: is it a folder? Those of nbgrader and Gradescope are; a file of such a
            name is a student's own idea.
        metadata: Gradescope's list of who handed in what; without it nothing is
            Gradescope's.
    """
    name, id = unicodedata.normalize("NFC", name), unicodedata.normalize("NFC", id)
    readings = (reader(name, folder, metadata) for reader in READERS)
    return next(filter(None, readings), None) or Name(("name", name), id, name)


def _read_canvas(name: str, folder: bool, metadata: Metadata) -> Name | None:
    """Canvas's user, upload and the student's own file name, or a text typed in there;
    where grading is anonymous, there is no user.
    """
    match = _ANON.fullmatch(name) or _CANVAS.fullmatch(name)
    if not match:
        return None
    user, called = match.groupdict().get("user"), match["name"]
    key = user or called.lower()
    file = match["file"] or match["typed"]
    # Could numbers further on be the real ones? Not those much shorter than this
    # user's, nor this user's (who handed in a file that Canvas had named), nor a day
    # and a time.
    unsure = any(
        len(later) > len(key) - 3
        and later != key
        and parse_timestamp(f"{later}_{attachment}") is None
        for later, attachment in _CANVAS_NUMBERS.findall("_" + file)
    )
    return Name(
        ("canvas", key),
        f"{called}_{user}" if user else called,
        file,
        int(match["number"][:18]) if match["number"] else None,
        who=({"canvas id": user, "name": called},) if user else (),
        prefix=_fold(called) if user else "",
        unsure=unsure,
        late=bool(match["late"]),
        start=match.string.removesuffix(file) if match["number"] else "",
    )


def _read_moodle(name: str, folder: bool, metadata: Metadata) -> Name | None:
    match = _MOODLE.fullmatch(name)
    if not match:
        return None
    number, called = match["id"], match["name"]
    who = {"moodle id": number, "name": called}
    id, file = f"{called}_{number}", match["file"] or ""
    return Name(("moodle", number), id, file, who=(who,), prefix=_fold(called))


def _read_nbgrader(name: str, folder: bool, metadata: Metadata) -> Name | None:
    match = _NBGRADER.fullmatch(name)
    if not folder or not match:
        return None
    student, stamp = match["student"], parse_timestamp(match["time"])
    return Name(("nbgrader", student), student, stamp=stamp)


def _fold(name: str) -> str:
    """Equal for one person's name however it was packed and unpacked (accents in one
    sign or two, blanks).
    """
    return normalize_name(name) or name


# --- Gradescope -----------------------------------------------------------------------


def _read_gradescope(name: str, folder: bool, metadata: Metadata) -> Name | None:
    """A folder of Gradescope's export: several people may have handed it in
    together.
    """
    match = _GRADESCOPE.fullmatch(name)
    if not folder or metadata is None or not match:
        return None
    number, entry = match["id"], metadata.get(name)
    entry = entry if isinstance(entry, dict) else {}
    people = entry.get(":submitters") or []
    who = tuple(
        {
            column: str(person[key])
            for column, key in (("name", ":name"), ("email", ":email"), ("sid", ":sid"))
            if person.get(key) not in (None, "")
        }
        | {"gradescope id": number}
        for person in (people if isinstance(people, list) else [])
        if isinstance(person, dict)
    )
    when = entry.get(":created_at")
    if isinstance(when, datetime):
        seconds: float | None = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    else:
        seconds = parse_timestamp(str(when)) if when else None
    who = who or ({"gradescope id": number},)
    return Name(("gradescope", number), name, "", int(number[:18]), seconds, who)


# a platform's name with its suffix, whether it is a folder's, Gradescope's list -> what
# it says, or None if the platform did not write it; the first that does counts
READERS: list[Callable[[str, bool, Metadata], Name | None]] = [
    _read_canvas,
    _read_moodle,
    _read_nbgrader,
    _read_gradescope,
]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Gradescope writes it: Ruby's symbols are strings, its objects what they
    hold.
    """


def _ruby(loader: Any, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node)
    return loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else node.value


_Loader.add_multi_constructor("!ruby/", _ruby)


def read_metadata(entries: Iterable[FolderEntry]) -> dict[str, Any] | None:
    """Gradescope's list of who handed in what, where it lies among these; else None.

    Raises:
        ValueError: if it cannot be read.
    """
    for entry in entries:
        if entry.name == METADATA and not entry.folder:
            try:
                read = yaml.load(entry.file().data(), Loader=_Loader)
            except (yaml.YAMLError, Unreadable, ValueError, RecursionError) as error:
                raise ValueError(
                    f"{METADATA} cannot be read ({' '.join(str(error).split())[:200]}): download"
                    " Gradescope's export again, or delete this file to grade without the"
                    " students' names"
                ) from None
            return read if isinstance(read, dict) else {}
    return None
