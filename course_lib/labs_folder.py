"""The labs in a folder of one's own, for those who have the installed package and no
checkout of the course.
"""

from __future__ import annotations

import shutil
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# of the course folder; a wheel has a copy of these in course_lib/_course
HANDED_OUT = (
    "labs/lab*.ipynb",
    "tests/labs/lab*/visible.py",
    "docs/notation.md",
    "docs/own_models.md",
    "LICENSE-TEXTS",
)
# what makes it a course folder for check() and the course's commands
PROJECT = '[project]\nname = "pruning-course-labs"  # the labs alone: the package is installed\n'


def write_labs(folder: Path) -> tuple[list[Path], list[Path]]:
    """Write the labs, with what ``check`` needs, into ``folder``; it is made if it is not
    there. A file that is there stays as it is: it may hold a student's answers.

    Returns:
        The files written, and those that were there and differ.

    Raises:
        FileNotFoundError: if this package has no labs in it.
    """
    inside = _PACKAGE / "_course"
    source = inside if inside.is_dir() else _PACKAGE.parent
    found = sorted(path for pattern in HANDED_OUT for path in source.glob(pattern))
    if not any(path.suffix == ".ipynb" for path in found):
        raise FileNotFoundError(f"{source} holds no labs: install the package again")
    written, kept = [], []
    for path in found:
        target = folder / path.relative_to(source)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            written.append(target)
        elif target.read_bytes() != path.read_bytes():
            kept.append(target)
    project = folder / "pyproject.toml"
    if not project.exists():
        project.write_text(PROJECT, encoding="utf-8")
        written.append(project)
    return written, kept
