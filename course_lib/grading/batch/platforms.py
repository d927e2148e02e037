"""The platforms that submissions come from, one adapter each: a function that reads the
name of a file or folder as the platform writes it.

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
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import regex as re  # knows letters' marks, \p{M}, which the standard library's does not
import yaml

from course_lib.grading.batch.entries import Entry
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.names import normalize_name, parse_timestamp

METADATA = "submission_metadata.yml"  # of Gradescope's export

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
        key: the same for everything of one student. id: how that student's submission
            is called in tables.
        prefix: what the system wrote beside the key, the student's name say. Where it
            differs, so may the students.
        claims: the people that it says it is of. unsure: could the student's own part
            have posed as the system's?
        start: what Canvas wrote before the student's file name, with the numbers by
            which it takes files back.
        late: does the system say that it came late, or in time? None where it says
            neither.
        file: the student's own file name. number: of the upload, larger = later; None
            where the name has none.
        stamp: when it was handed in (seconds since 1970, UTC), or None. who: what is
        known of the student, by the column names of a roster ("canvas id", "moodle id",
        "name", "email", "sid").
    """

    key: tuple[str, str]
    id: str
    file: str = ""
    number: int | None = None
    stamp: float | None = None
    who: tuple[dict[str, str], ...] = field(default=())
    prefix: str = ""
    claims: tuple[str, ...] = ()
    unsure: bool = False
    late: bool | None = None
    start: str = ""

    @property
    def known(self) -> bool:
        """Did a learning management system write this name?"""
        return self.key[0] != "name"


Adapter = Callable[[str, bool], Name | None]  # of a name; is it a folder?


def detect(entries: Sequence[Entry]) -> tuple[Adapter, ...]:
    """The adapters for what lies together. Gradescope is known by its list of who
    handed in what, the others by the names themselves.

    Raises:
        ValueError: if Gradescope's list cannot be read.
    """
    listed = [entry for entry in entries if entry.name == METADATA and not entry.folder]
    return (*ADAPTERS, gradescope(_read_metadata(listed[0]))) if listed else ADAPTERS


def read(entry: Entry, adapters: Sequence[Adapter] = ()) -> Name:
    """What the name of an entry says of whose it is: see :func:`read_name`."""
    return read_name(entry.name, entry.stem, adapters or ADAPTERS, entry.folder)


def read_name(name: str, id: str, adapters: Sequence[Adapter] = (), folder: bool = True) -> Name:
    """Read the name of a file or folder: from the left, for there the system's part
    begins. Composed and decomposed accents (NFC, NFD) are the same name.

    Args:
        name: with its suffix. id: what to call the submission where the name says
            nothing.
        adapters: of the platforms that may have written it, by default all that are
            known by names alone.
        folder: is it a folder? Those of nbgrader and Gradescope are; a file of such a
            name is a student's own idea.
    """
    name, id = unicodedata.normalize("NFC", name), unicodedata.normalize("NFC", id)
    found = (adapter(name, folder) for adapter in adapters or ADAPTERS)
    return next((said for said in found if said), None) or Name(("name", name), id, name)


def canvas(name: str, folder: bool) -> Name | None:
    """Canvas: user, upload and the student's own file name, or a text typed in there."""
    if match := _ANON.fullmatch(name):
        return _canvas(match, match["name"].lower(), match["name"], "", ())
    if match := _CANVAS.fullmatch(name):
        user, called = match["user"], match["name"]
        who = {"canvas id": user, "name": called}
        return _canvas(match, user, f"{called}_{user}", _same(called), (who,))
    return None


def _canvas(
    match: re.Match[str], user: str, id: str, prefix: str, who: tuple[dict[str, str], ...]
) -> Name:
    file = match["file"] or match["typed"]
    # Could numbers further on be the real ones? Not those much shorter than this
    # user's, nor this user's (who handed in a file that Canvas had named), nor a day
    # and a time.
    unsure = any(
        len(later) > len(user) - 3
        and later != user
        and parse_timestamp(f"{later}_{attachment}") is None
        for later, attachment in _CANVAS_NUMBERS.findall("_" + file)
    )
    number = int(match["number"][:18]) if match["number"] else None
    return Name(
        ("canvas", user),
        id,
        file,
        number,
        who=who,
        prefix=prefix,
        claims=(f"Canvas's {user}",),
        unsure=unsure,
        late=bool(match["late"]),
        start=match.string.removesuffix(file) if match["number"] else "",
    )


def moodle(name: str, folder: bool) -> Name | None:
    """Moodle: a folder, or the start of a file's name."""
    if not (match := _MOODLE.fullmatch(name)):
        return None
    who = {"moodle id": match["id"], "name": match["name"]}
    return Name(
        ("moodle", match["id"]),
        f"{match['name']}_{match['id']}",
        match["file"] or "",
        who=(who,),
        prefix=_same(match["name"]),
        claims=(f"Moodle's {match['id']}",),
    )


def nbgrader(name: str, folder: bool) -> Name | None:
    """nbgrader's inbound folders."""
    if not folder or not (match := _NBGRADER.fullmatch(name)):
        return None
    time = parse_timestamp(match["time"])
    return Name(("nbgrader", match["student"]), match["student"], stamp=time)


ADAPTERS: tuple[Adapter, ...] = (canvas, moodle, nbgrader)


# --- Gradescope -----------------------------------------------------------------------


def gradescope(metadata: dict[str, Any]) -> Adapter:
    """Gradescope's folders, by its list of who handed in what."""

    def read(name: str, folder: bool) -> Name | None:
        match = _GRADESCOPE.fullmatch(name) if folder else None
        return _gradescope(name, match["id"], metadata.get(name)) if match else None

    return read


def _gradescope(name: str, number: str, entry: Any) -> Name:
    """A folder of Gradescope's export: several people may have handed it in
    together.
    """
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
    # a name alone does not tell who it is: there may be two of them
    claims = tuple(sorted({(p.get("email") or p.get("sid") or "").casefold() for p in who}))
    key = "\n".join(claims) if all(claims) and claims else number
    return Name(
        ("gradescope", key),
        name,
        "",
        int(number[:18]),
        seconds,
        who or ({"gradescope id": number},),
        claims=tuple(claim for claim in claims if claim),
    )


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Gradescope writes it: Ruby's symbols are strings, its objects what they
    hold.
    """


def _ruby(loader: Any, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node)
    return loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else node.value


_Loader.add_multi_constructor("!ruby/", _ruby)


def _read_metadata(entry: Entry) -> dict[str, Any]:
    """Gradescope's list of who handed in what."""
    try:
        read = yaml.load(entry.file().data(), Loader=_Loader)
    except (yaml.YAMLError, Unreadable, OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{entry.name} cannot be read ({' '.join(str(error).split())[:200]}): download"
            " Gradescope's export again, or delete this file to grade without the students' names"
        ) from None
    return read if isinstance(read, dict) else {}


# --- all of them ----------------------------------------------------------------------


def _same(name: str) -> str:
    """Equal for one person's name however it was packed and unpacked (accents in one
    sign or two, blanks).
    """
    return normalize_name(name) or name
