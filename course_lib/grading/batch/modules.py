"""Own modules of a student: which ``.py`` files were handed in together with a notebook, and by
what name the notebook imports each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

MOST_FILES = 50
MOST_BYTES = 1 << 18  # of one file
MOST_FOLDERS = 4  # deep
# the number that a browser or Canvas adds to a file of the same name: helpers-1.py
_AGAIN = re.compile(r"(?P<stem>[^\W\d]\w*)(?:-(?P<n>\d{1,4})| ?\((?P<m>\d{1,4})\))\.py")
# folders that are not the student's, where all of the course's was handed in
_OTHERS = {"course_lib", "site-packages", "slides", "solutions", "tests"}


def name_of(path: str, own: str, folder: str) -> tuple[str, int]:
    """The path by which a notebook in ``folder`` finds a ``.py`` file, and the number that an
    upload of the same name added; ("", 0) where no import can find it.

    Args:
        path: the file's path in the submission. own: the student's name for it.

    A file beside the notebook's folder, as a further upload lies, counts as one in it.
    """
    if not own.lower().endswith(".py"):
        return "", 0
    again = _AGAIN.fullmatch(own)
    stem = again["stem"] if again else own[:-3]
    number = int(again["n"] or again["m"]) if again else 0
    place = PurePosixPath(path).parent
    inside = place.is_relative_to(folder or ".")
    folders = list(place.relative_to(folder or ".").parts) if inside else []
    if len(folders) > MOST_FOLDERS or not all(part.isidentifier() for part in (*folders, stem)):
        return "", 0
    if _OTHERS & set(folders if inside else place.parts):
        return "", 0
    return "/".join([*folders, f"{stem}.py"]), number


def nearest(paths: Iterable[str]) -> tuple[list[str], str]:
    """The files that are used, those least deep first, and a sentence if there are more."""
    found = sorted(paths, key=lambda path: (path.count("/"), path))
    if len(found) <= MOST_FILES:
        return found, ""
    return found[:MOST_FILES], (
        f"{len(found)} .py files were handed in, of which {MOST_FILES} are used: hand in those"
        f" that the notebook imports. Left out: {', '.join(found[MOST_FILES:][:5])}, …"
    )


__all__ = ["MOST_BYTES", "MOST_FILES", "name_of", "nearest"]
