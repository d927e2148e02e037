"""Where the course lives on this machine, and where data may lie."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).resolve().parent


def _is_course(folder: Path) -> bool:
    """A checkout, or a student's release folder: ``labs/`` beside a ``pyproject.toml``
    that names pruning-course.
    """
    project = folder / "pyproject.toml"
    try:
        return (folder / "labs").is_dir() and "pruning-course" in project.read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:
        return False


def course_root() -> Path | None:
    """The course folder: ``$COURSE_ROOT``, else the nearest one at or above the working
    folder, else None.

    Raises:
        ValueError: if ``$COURSE_ROOT`` is set but is not a folder.
    """
    if given := os.environ.get("COURSE_ROOT"):
        root = Path(given).expanduser()
        if not root.is_dir():
            raise ValueError(
                f"COURSE_ROOT is set to {given!r}, which is not a folder: "
                "set it to the folder that holds labs/ and pyproject.toml, or unset it"
            )
        return root.resolve()
    return course_above(Path.cwd())


def course_above(place: Path) -> Path | None:
    """The nearest course folder at or above an absolute path, which need not exist."""
    return next((folder for folder in (place, *place.parents) if _is_course(folder)), None)


def data_dir() -> Path:
    """The course's own small data and checkpoints: ``data/`` of the course folder, else
    the copy inside the package.

    Outside a course folder, a package installed in editable mode uses the ``data/`` of
    its own checkout. The folder that is returned may not exist (a release folder
    without data and a package without its copy).
    """
    root = course_root()
    places = [*([root / "data"] if root else []), _PACKAGE / "_data"]
    if (_PACKAGE.parent / "pyproject.toml").is_file():
        places.append(_PACKAGE.parent / "data")
    return next((place for place in places if place.is_dir()), places[0])


def visible_claims(lab: str) -> Path | None:
    """The folder of a lab's visible claims: in the course folder, else the copy inside the
    package, else in the checkout that an editable package lies in; None where there is
    none.
    """
    root, checkout = course_root(), _PACKAGE.parent
    places = [*([root] if root else []), _PACKAGE / "_course"]
    if _is_course(checkout):
        places.append(checkout)
    folders = [place / "tests" / "labs" / lab for place in places]
    return next((folder for folder in folders if (folder / "visible.py").is_file()), None)


def import_producers(stored: str, pattern: str) -> list[ModuleType]:
    """The scripts that made what is stored: those of ``data/STORED/make``, imported.

    From then on they can be imported by name, in other processes, too.

    Args:
        stored: "results" or "checkpoints".
        pattern: of the names of files.
    """
    make = data_dir() / stored / "make"
    if make.is_dir() and str(make) not in sys.path:
        sys.path.append(str(make))
    return [import_module(script.stem) for script in sorted(make.glob(pattern))]


def cache_dir() -> Path:
    """Where downloads go when nothing else is said: ``$XDG_CACHE_HOME/pruning-course``,
    or the same below ~/.cache.
    """
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser() / "pruning-course"


def data_places() -> list[Path]:
    """Folders in which real data sets are looked for, in this order: ``$COURSE_DATA``,
    the course's data/, the cache.
    """
    places: list[Path] = []
    if given := os.environ.get("COURSE_DATA"):
        places.append(Path(given).expanduser())
    if root := course_root():
        places.append(root / "data")
    places.append(cache_dir())
    return places


def data_folder(name: str, files: Iterable[str]) -> tuple[Path | None, list[str]]:
    """The first of :func:`data_places` with a folder of that name that holds all the
    files; and what was amiss with those before, a line each.
    """
    wanted = list(files)
    looked: list[str] = []
    for place in data_places():
        folder = place / name
        # os.path: a folder that may not be entered counts as one without the files
        missing = [file for file in wanted if not os.path.isfile(folder / file)]
        if not missing:
            return folder, looked
        looked.append(
            f"  {folder}:"
            f" {f'{missing[0]} is missing' if os.path.isdir(folder) else 'there is no such folder'}"
        )
    return None, looked
