"""How a class's submissions lie: which entries are a student's, which folders are
sections, and what is neither.

Students decide on names inside their own folders. So a folder is read as a section,
with the students in it, only where its own name says so, or where everything beside it
is one, too. A folder or zip that is all there is may be the class's: it is where
notebooks under several people's names answer the lab.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from course_lib.grading.batch import names
from course_lib.grading.batch.entries import Entry, File, in_zip, of_a_class, of_a_student, on_disk
from course_lib.grading.batch.ipynb import Unreadable

METADATA = "submission_metadata.yml"  # of Gradescope's export
Placed = tuple[str, Entry]  # the section's name, or ""; what lies in it
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


def top(path: Path) -> list[Entry]:
    """What lies in a folder, or in a class's zip; a file that is neither, alone.

    Wrapping is taken off: a folder, or a class's zip, with nothing beside it.
    """
    inside = (
        [on_disk(found) for found in sorted(path.iterdir())] if path.is_dir() else [on_disk(path)]
    )
    return _unwrapped(inside, path if path.is_dir() else path.parent)


def _unwrapped(entries: list[Entry], place: Path | None) -> list[Entry]:
    visible = [entry for entry in entries if not entry.rubbish]
    inside = {entry.name: entry for entry in visible if entry.folder}
    for name_, beside in _NBGRADER.items():
        if name_ in inside and beside & {entry.name for entry in visible}:
            return inside[name_].children()
    if len(visible) == 1:
        (only,) = visible
        try:
            if only.folder:
                children, below = only.children(), place / only.name if place else None
            elif only.suffix == ".zip" and place:
                children, below = of_a_class(place / only.name), None
            else:
                return visible
            deeper = _unwrapped(children, below)
        except (Unreadable, OSError):
            return visible  # its problem is said where it is read
        if any(entry.name == METADATA or name(entry, {}).known for entry in deeper):
            return deeper
        unwrapped = {id(entry) for entry in deeper} - {id(entry) for entry in children}
        if (unwrapped and len(deeper) > 1) or (only.suffix == ".zip" and _sections(deeper)):
            return deeper
    return visible


def name(entry: Entry, metadata: dict[str, Any] | None) -> names.Name:
    """What the entry's name says of whose it is."""
    return names.read(entry.name, entry.stem, metadata, entry.folder)


def may_be_one(entry: Entry, named: bool = True) -> bool:
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


def why_not(entry: Entry) -> str:
    """Why it was not taken for a submission."""
    if entry.hidden:
        return "hidden, for its name begins with a dot"
    return _WHY.get(entry.suffix, "no notebook (.ipynb), folder or zip")


def students(entries: Sequence[Entry]) -> tuple[list[Placed], list[str], dict[str, Any] | None]:
    """The entries that may be a student's, those in sections among them; the sections'
    names; Gradescope's list, if there is one.

    Raises:
        ValueError: if Gradescope's list cannot be read.
    """
    metadata = next(
        (_metadata(entry) for entry in entries if entry.name == METADATA and not entry.folder), None
    )
    sections = [] if metadata is not None else _sections(entries)
    placed: list[Placed] = []
    for entry in entries:
        inside = (
            [(entry.name, child) for child in entry.children()]
            if entry in sections
            else [("", entry)]
        )
        placed += [
            (place, e)
            for place, e in inside
            if not e.rubbish and (e.name != METADATA or metadata is None)
        ]
    return placed, [entry.name for entry in sections], metadata


def _sections(entries: Sequence[Entry]) -> list[Entry]:
    """Those of the entries that hold several students' submissions."""
    candidates = [entry for entry in entries if may_be_one(entry)]
    inside = {id(entry): _students_in(entry) for entry in candidates if not name(entry, None).known}
    named = [entry for entry in candidates if inside.get(id(entry)) and _SECTION.search(entry.name)]
    if len(inside) < len(candidates) or not all(inside.values()):
        return named
    children = [child for entry in candidates for child in inside[id(entry)]]
    if all(name(child, None).known for child in children):
        return candidates
    # As instructors make them by hand: folders in folders, and nobody is in two. Who
    # hands in two folders calls them alike.
    apart = (
        len({names.normalize_name(child.stem) for child in children}) == len(children)
        and len(candidates) > 1
    )
    folders = all(
        len(inside[id(entry)]) > 1 and all(child.folder for child in inside[id(entry)])
        for entry in candidates
    )
    return candidates if apart and folders else named


def _students_in(entry: Entry) -> list[Entry]:
    """What in a folder may be students' submissions; nothing where some of it cannot
    be.
    """
    if not entry.folder:
        return []
    try:
        inside = [
            child for child in entry.children() if may_be_one(child) or name(child, None).known
        ]
        if any(
            names.parse_timestamp(child.stem) is not None or _of_a_lab(child.stem)
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
    except (Unreadable, OSError):
        return []
    return inside


def people_in(entry: Entry, answers: Callable[[File], bool]) -> tuple[list[Entry], list[Entry]]:
    """What in a folder or zip is, by its name, a person's, and what bears no name
    ("lab01", "final copy"), where it holds a notebook that answers the lab.

    Args:
        answers: does a notebook answer something of the lab?
    """
    inside = entry.children() if entry.folder else in_zip(entry.file())
    found: tuple[list[Entry], list[Entry]] = ([], [])
    for child in inside:
        try:
            notebooks = [] if child.hidden else [
                inner
                for file in child.files()
                for inner in (of_a_student(file) if file.form == "zip" else [file])
                if inner.form == "notebook"
            ]  # fmt: skip
        except (Unreadable, OSError):
            continue
        if any(answers(file) for file in notebooks):
            found[not _is_named(child.stem)].append(child)
    return found


def _is_named(stem: str) -> bool:
    """Does a file's or folder's name hold more than a lab, a time and words such as
    "final": a name, or a student's number?
    """
    words = re.findall(r"[^\W\d_]+|\d{5,}", stem.lower())
    return names.parse_timestamp(stem) is None and not all(map(_GENERIC.fullmatch, words))


def _of_a_lab(text: str) -> bool:
    """Does a name speak of a lab, and of nothing else?"""
    return bool(names.find_lab_numbers(text)) and len(names.normalize_name(text)) <= 6


# --- Gradescope's list ----------------------------------------------------------------


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Gradescope writes it: Ruby's symbols are strings, its objects what they
    hold.
    """


def _ruby(loader: Any, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node)
    return loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else node.value


_Loader.add_multi_constructor("!ruby/", _ruby)


def _metadata(entry: Entry) -> dict[str, Any]:
    """Gradescope's list of who handed in what, where the folder is its export."""
    try:
        read = yaml.load(entry.file().data(), Loader=_Loader)
    except (yaml.YAMLError, Unreadable, OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{entry.name} cannot be read ({' '.join(str(error).split())[:200]}): download"
            " Gradescope's export again, or delete this file to grade without the students' names"
        ) from None
    return read if isinstance(read, dict) else {}
