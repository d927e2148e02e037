"""Labs that open with one click, once the release lies in a repository on GitHub: badges
for Colab and Binder, the cell that installs the course on Colab, and what Binder reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from course_lib.authoring.errors import AuthoringError
from course_lib.authoring.source import Cell
from course_lib.environment import CPU_INDEX, LOCK, PAIR

# plain Python: of a shell command, the grader would tell every student that it did not run
INSTALL = """\
import os
from importlib.util import find_spec

failed, missing = "", not find_spec("course_lib")  # missing on Colab: fetched and installed here
if missing and not os.path.isdir("course"):
    clone = "GIT_TERMINAL_PROMPT=0 git clone -q --depth 1 -b main"
    if os.system(f"{{clone}} https://github.com/{0} course"):
        failed = (
            "The course could not be cloned from https://github.com/{0}: that repository must"
            " be public, have this name, and have the branch main."
        )
if missing and not failed and os.system("pip install -q -e 'course[course]'"):
    failed = "pip could not install the course: read its message above, then run this cell again."
if failed:
    error = RuntimeError(failed)
    error._render_traceback_ = lambda: [failed]  # the sentence alone
    raise error
# also after a restart of the runtime, which is outside the course's folder again
if os.path.isdir("course/labs") and (missing or not os.path.isdir("../labs")):
    os.chdir("course")"""


def add_badges(cells: Sequence[Cell], slug: str, repository: str) -> list[Cell]:
    """The cells of a lab with badges below its title, and with the cell that installs the
    course as its second one.

    Args:
        slug: the name of the notebook, without ``.ipynb``. repository: "owner/name" on
            GitHub, which is public, and whose branch ``main`` holds the release.

    Raises:
        AuthoringError: if ``repository`` is not of that form.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise AuthoringError(
            f"--repository must be the owner and the name on GitHub, as in ada/pruning; got"
            f" {repository!r}"
        )
    colab = f"https://colab.research.google.com/github/{repository}/blob/main/labs/{slug}.ipynb"
    binder = f"https://mybinder.org/v2/gh/{repository}/main?urlpath=lab/tree/labs/{slug}.ipynb"
    badges = (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})"
        f" [![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})"
    )
    first, *rest = cells
    heading, _, text = first.source.partition("\n")
    title = replace(first, source=f"{heading}\n\n{badges}\n{text}")
    return [title, Cell("code", INSTALL.format(repository), first.lines[:1]), *rest]


def binder_files() -> dict[str, bytes]:
    """Name -> content of what Binder builds an environment from."""
    wanted = [
        f"--extra-index-url {CPU_INDEX}",
        f"-c ../course_lib/{LOCK.name}",  # seen from this file
        *PAIR,
        ".[course]",
    ]
    return {
        ".binder/requirements.txt": ("\n".join(wanted) + "\n").encode(),
        ".binder/runtime.txt": b"python-3.12\n",
    }
