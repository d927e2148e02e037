"""What ``course lab`` opens: a lab of the course folder that one is in, or the labs in a
folder of one's own, for those who have the installed package and no checkout of the course.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from course_lib.paths import course_above, course_root

_PACKAGE = Path(__file__).resolve().parent
# of the course folder; a wheel has a copy of these in course_lib/_course, which
# course_lib/authoring/hatch_build.py puts there
HANDED_OUT = (
    "labs/lab*.ipynb",
    "tests/labs/lab*/visible.py",
    "docs/notation.md",
    "docs/own_models.md",
    "docs/families.md",
    "LICENSE-TEXTS",
)
# of the package itself: what the labs link to
LINKED = "experiments/lab*.py"
# what makes it a course folder for check() and the course's commands
PROJECT = '[project]\nname = "pruning-course-labs"  # the labs alone: the package is installed\n'


def find_opened(name: str) -> tuple[Path, Path] | None:
    """What ``course lab NAME`` opens in a course folder: that folder, and the lab or folder
    inside it. None if the labs are first to be written into NAME.

    Raises:
        ValueError: if NAME is a lab or a file and there is no such lab, or a new folder
            inside a course folder.
    """
    path = Path(name).expanduser().resolve()
    if re.fullmatch(r"lab\d+\w*", name):
        root = course_root()
        if root is None:
            raise ValueError(
                f"{name} is a lab, and there is no course folder here: `course lab DIR` writes all"
                " labs into the folder DIR and opens them"
            )
        found = sorted((root / "labs").glob(f"{name}*.ipynb"))
        if len(found) != 1:
            there = ", ".join(path.name[:5] for path in sorted((root / "labs").glob("lab*.ipynb")))
            raise ValueError(f"{name} is no lab of {root}, which has {there}")
        return root, found[0]
    root = course_above(path)
    if root == path and PROJECT in (path / "pyproject.toml").read_text(encoding="utf-8"):
        return None  # written by `course lab`: what is missing is written again
    if root is not None and path.exists():
        return root, path if path != root else root / "labs"
    if root is not None:
        raise ValueError(
            f"{name} would be a folder inside the course's folder {root}, which has the labs:"
            " `course lab` opens them, `course lab lab01` one of them"
        )
    if path.exists() and not path.is_dir():
        raise ValueError(
            f"{name} is a file, and not one of a course folder: name a lab, or a folder to write"
            " the labs into"
        )
    return None


def write_labs(folder: Path) -> tuple[list[Path], list[Path]]:
    """Write the labs, with what ``check`` needs, into ``folder``; it is made if it is not
    there. A file that is there stays as it is: it may hold a student's answers.

    Returns:
        The files written, and those that were there and differ.

    Raises:
        FileNotFoundError: if this package has no labs in it.
        OSError: if ``folder`` cannot be written into.
    """
    inside = _PACKAGE / "_course"
    source = inside if inside.is_dir() else _PACKAGE.parent
    found = sorted(path for pattern in HANDED_OUT for path in source.glob(pattern))
    if not any(path.suffix == ".ipynb" for path in found):
        raise FileNotFoundError(f"{source} holds no labs: install the package again")
    try:
        return _write(found, source, folder)
    except OSError as error:
        raise OSError(
            f"the labs cannot be written into {folder}"
            f" ({(error.strerror or str(error)).lower()}): choose a folder in which you may write,"
            " such as ~/pruning"
        ) from error


def _write(found: list[Path], source: Path, folder: Path) -> tuple[list[Path], list[Path]]:
    written, kept = [], []
    targets = [(path, folder / path.relative_to(source)) for path in found]
    linked = _PACKAGE.glob(LINKED)
    targets += [(path, folder / path.relative_to(_PACKAGE.parent)) for path in linked]
    for path, target in targets:
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


def open_jupyter(folder: Path, opened: str, options: list[str]) -> int:
    """Run JupyterLab in ``folder`` until it ends; its exit code.

    Args:
        opened: what of the folder it shows first. options: for JupyterLab.
    """
    address = f"--LabApp.default_url=/lab/tree/{quote(opened)}"
    command = [sys.executable, "-m", "jupyter", "lab", f"--notebook-dir={folder}", address]
    command += options
    if os.environ.get("REMOTE_CONTAINERS") or os.environ.get("CODESPACES"):
        # the browser of a dev container is outside of it: it is told addresses, and
        # sees no files in here
        command.append("--ServerApp.use_redirect_file=False")
    elif sys.platform.startswith("linux") and not any(
        os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    ):
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return subprocess.call(command, cwd=folder)
