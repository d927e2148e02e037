"""How a class's submissions lie: which entries are a student's, which folders are
sections, and what is neither.

Students decide on names inside their own folders. So a folder is read as a section,
with the students in it, only where its own name says so, or where everything beside it
is one, too. A folder or zip that is all there is may be the class's: it is where
notebooks under several people's names answer the lab.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.grading.batch import ipynb, origin, platforms
from course_lib.grading.batch.entries import (
    File,
    FolderEntry,
    in_zip,
    of_a_class,
    of_a_student,
    on_disk,
)
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.names import (
    find_lab_numbers,
    normalize_name,
    parse_timestamp,
    printable,
)
from course_lib.grading.batch.platforms import METADATA, Name, read_metadata

_SECTION = re.compile(
    r"(?<![^\W\d_])(?:section|sec|tutorial|recitation|class|seminar|course|cohort)(?![^\W\d_])",
    re.IGNORECASE,
)
_PACKED = (".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst")
_WHY = {
    ".html": (
        "a page made of a notebook, or a text typed into the system, and not the notebook itself"
    ),
    ".pdf": "a page made of a notebook, and not the notebook itself",
    ".py": "a script, and not a notebook",
    **dict.fromkeys(_PACKED, "packed in a way that is not read: unpack it, or pack it as a zip"),
}
# nbgrader's folders: where the submissions are, and one of these beside it
_NBGRADER = {
    "submitted": {
        "source",
        "release",
        "autograded",
        "feedback",
        "gradebook.db",
        "nbgrader_config.py",
    },
    "inbound": {"outbound", "feedback"},
}
# words of a file's name that say nothing of whose it is
_GENERIC = re.compile(
    r"lab|final|finished|finish|copy|version|v|draft|old|new|my|own|the|a|of|for|and|"
    r"with|mine|solution|solutions|solved|submission|submissions|submitted|submit|"
    r"answer|answers|answered|done|complete|completed|homework|hw|assignment|exercise|"
    r"exercises|notebook|nb|ipynb|untitled|attempt|try|part|work|working|backup|bak|"
    r"fixed|checkpoint|test|scratch|notes|updated|edit|edited|student|corrected|last|"
    r"latest|really|real|download|file|kopie|copie|copia"
)


@dataclass(frozen=True)
class Placed:
    """An entry that may be a student's.

    Attributes:
        section: the section's name, or "". name: what the entry's name says.
    """

    section: str
    entry: FolderEntry
    name: Name

    @property
    def path(self) -> str:
        return f"{self.section}/{self.entry.name}" if self.section else self.entry.name


def latest(items: Iterable[Placed]) -> Placed:
    """Of one student's entries the one that was handed in last, by what the names say."""
    return max(items, key=lambda p: (p.name.stamp or 0, p.name.number or 0))


def open_class(path: Path, lab: str) -> tuple[list[Placed], list[str]]:
    """What lies in a folder, or in a class's zip as a platform gives it; a file that is
    neither, alone. And the names of the folders that were read as sections.

    Raises:
        ValueError: if Gradescope's list cannot be read; or if what lies there may be
            one student's or a class's.
    """
    inside = [on_disk(found) for found in sorted(path.iterdir())] if path.is_dir() else []
    place = path if path.is_dir() else path.parent
    entries = _unwrapped(inside or ([] if path.is_dir() else [on_disk(path)]), place)
    metadata = read_metadata(entries)
    if metadata is not None:  # Gradescope's list says whose is what
        entries = [entry for entry in entries if entry.name != METADATA]
        return _placed("", entries, metadata), []
    sections = _sections(entries)
    placed = []
    for entry in entries:
        if entry in sections:
            placed += _placed(entry.name, entry.children())
        else:
            placed += _placed("", [entry])
    if sections:
        return placed, [entry.name for entry in sections]
    return _split_if_of_several(placed, path, lab)


def _placed(
    section: str, entries: Iterable[FolderEntry], metadata: dict[str, Any] | None = None
) -> list[Placed]:
    return [
        Placed(section, entry, platforms.read(entry, metadata))
        for entry in entries
        if not entry.rubbish
    ]


def _unwrapped(entries: list[FolderEntry], place: Path | None) -> list[FolderEntry]:
    """Without wrapping: a folder, or a class's zip, with nothing beside it."""
    visible = [entry for entry in entries if not entry.rubbish]
    inside = {entry.name: entry for entry in visible if entry.folder}
    for name, beside in _NBGRADER.items():
        if name in inside and beside & {entry.name for entry in visible}:
            return inside[name].children()
    if len(visible) != 1:
        return visible
    (only,) = visible
    try:
        if only.folder:
            children, below = only.children(), place / only.name if place else None
        elif only.suffix == ".zip" and place:
            children, below = of_a_class(place / only.name), None
        else:
            return visible
        deeper = _unwrapped(children, below)
    except Unreadable:
        return visible  # its problem is said where it is read
    if any(e.name == METADATA or platforms.read(e, {}).known for e in deeper):
        return deeper
    unwrapped = {id(entry) for entry in deeper} - {id(entry) for entry in children}
    if (unwrapped and len(deeper) > 1) or (only.suffix == ".zip" and _sections(deeper)):
        return deeper
    return visible


def _split_if_of_several(
    placed: list[Placed], place: Path, lab: str
) -> tuple[list[Placed], list[str]]:
    """If all there is is one folder or zip, what lies in it where that is several
    people's; and the folder's name.

    Raises:
        ValueError: if it may be several people's, and it is not sure.
    """
    candidates = [p for p in placed if may_be_one(p.entry)]
    if len(candidates) != 1 or candidates[0].name.known:
        return placed, []
    only = candidates[0].entry
    if not only.folder and only.form != "zip":
        return placed, []
    place /= only.name
    try:
        while only.folder and len(inside := [e for e in only.children() if not e.rubbish]) == 1:
            if not inside[0].folder:
                break
            (only,) = inside
            place /= only.name
        inside = only.children() if only.folder else in_zip(only.file())
        people, nameless = _people_in(inside, lab)
    except Unreadable:
        return placed, []  # its problem is said where it is read
    if len(people) < 2:
        return placed, []
    if len(people) <= len(nameless):
        listed = ", ".join(printable(entry.name)[:60] for entry in [*people, *nameless][:6])
        remedy = f"give {place}" if only.folder else f"unzip {only.name}, and give that"
        raise ValueError(
            f"{printable(only.name)} holds {len(people) + len(nameless)} notebooks that"
            f" answer {lab} ({listed}): if they are several students', {remedy}; if they are one"
            " student's, keep one of them"
        )
    return _placed(only.name, inside), [only.name]


def may_be_one(entry: FolderEntry, named: bool = True) -> bool:
    """May this be a submission, whatever its name?

    Args:
        named: is a file meant as one that only its name makes one ("bo.7z")? Not where
            a system names the submissions.
    """
    return not entry.hidden and bool(
        entry.folder
        or entry.suffix in (".ipynb", ".zip")
        or (named and (entry.suffix in _PACKED or ".ipynb" in entry.name.lower()))
        or entry.form in ("notebook", "zip")
    )


def why_not(entry: FolderEntry) -> str:
    """Why it was not taken for a submission."""
    if entry.hidden:
        return "hidden, for its name begins with a dot"
    return _WHY.get(entry.suffix, "no notebook (.ipynb), folder or zip")


def _sections(entries: Sequence[FolderEntry]) -> list[FolderEntry]:
    """Those of the entries that hold several students' submissions."""
    candidates = [entry for entry in entries if may_be_one(entry)]
    unknown = [entry for entry in candidates if not platforms.read(entry).known]
    inside = {id(entry): _students_in(entry) for entry in unknown}
    named = [entry for entry in candidates if inside.get(id(entry)) and _SECTION.search(entry.name)]
    if len(inside) < len(candidates) or not all(inside.values()):
        return named
    children = [child for entry in candidates for child in inside[id(entry)]]
    if all(platforms.read(child).known for child in children):
        return candidates
    # As instructors make them by hand: folders in folders, and nobody is in two. Who
    # hands in two folders calls them alike.
    apart = (
        len({normalize_name(child.stem) for child in children}) == len(children)
        and len(candidates) > 1
    )
    folders = all(
        len(inside[id(entry)]) > 1 and all(child.folder for child in inside[id(entry)])
        for entry in candidates
    )
    return candidates if apart and folders else named


def _students_in(entry: FolderEntry) -> list[FolderEntry]:
    """What in a folder may be students' submissions; nothing where some of it cannot
    be.
    """
    if not entry.folder:
        return []
    try:
        inside = [
            child for child in entry.children() if may_be_one(child) or platforms.read(child).known
        ]
        if any(
            parse_timestamp(child.stem) is not None or _of_a_lab(child.stem)
            for child in inside
            if child.folder
        ):
            return []  # one student's, by date or by lab
        if not any(
            child.folder
            and any(f.suffix in (".ipynb", ".zip") for f in child.files())
            or not child.folder
            for child in inside
        ):
            return []
    except Unreadable:
        return []
    return inside


def _people_in(inside: list[FolderEntry], lab: str) -> tuple[list[FolderEntry], list[FolderEntry]]:
    """What of it is, by its name, a person's, and what bears no name ("lab01", "final
    copy"), where it holds a notebook that answers the lab.
    """
    found: tuple[list[FolderEntry], list[FolderEntry]] = ([], [])
    for child in inside:
        try:
            notebooks = [] if child.hidden else [
                inner
                for file in child.files()
                for inner in (of_a_student(file) if file.form == "zip" else [file])
                if inner.form == "notebook"
            ]  # fmt: skip
        except Unreadable:
            continue
        if any(_answers(lab, file) for file in notebooks):
            found[not _is_named(child.stem)].append(child)
    return found


def _answers(lab: str, file: File) -> bool:
    """Does a notebook answer something of the lab?"""
    try:
        notebook = ipynb.read(file.data())
        return origin.of(notebook).lab == lab or origin.answers(lab, ipynb.code(notebook))
    except Unreadable:
        return False


def _is_named(stem: str) -> bool:
    """Does a file's or folder's name hold more than a lab, a time and words such as
    "final": a name, or a student's number?
    """
    words = re.findall(r"[^\W\d_]+|\d{5,}", stem.lower())
    return parse_timestamp(stem) is None and not all(map(_GENERIC.fullmatch, words))


def _of_a_lab(text: str) -> bool:
    """Does a name speak of a lab, and of nothing else?"""
    return bool(find_lab_numbers(text)) and len(normalize_name(text)) <= 6
