"""The course as a web site, ``build/site``: what there is to read, and the library's
reference from its docstrings. No page is written for it twice: Sphinx reads the
repository's own, laid side by side as they are there, and the few of ``docs/site`` at
the top.

Nothing of a page comes from the network, and it opens from disk.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.authoring import sheet, slides
from course_lib.authoring.errors import AuthoringError, shown

BUILT, SOURCE = Path("build") / "site", Path("build") / "site-source"
OWN = Path("docs") / "site"
# what pages are made of, and what they link to
LAID = (
    *("*.md", "CITATION.cff", "LICENSE*", "data/*.md", "data/pictures/*"),
    *("data/examples/*", "docs/*.md", "labs/*.ipynb", "slides/*.md", "slides/_build/*.*"),
    *("solutions/index.*", "solutions/lab*.ipynb", "tests/**/*.py", "course_lib/experiments/*.py"),
)
FOLDERS = ("tests/attacks",)  # a link to one of these leads to a zip of it


def build(root: Path, echo: Callable[[str], Any] = print) -> Path:
    """Write the site and return its folder. The decks that ``course slides`` has built
    are in it.

    Raises:
        AuthoringError: outside the course's own folder; without Sphinx or its extensions;
            where Sphinx warns of anything.
    """
    root = Path(root).resolve()
    if not (root / OWN / "conf.py").is_file():
        raise AuthoringError(f"{OWN}: there is no site here: it belongs to the course's own folder")
    needed = ("sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_copybutton", "sphinx_design")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise AuthoringError(
            f'site: {", ".join(missing)} not installed: pip install -e ".[site]", or make site'
        )
    source, built = root / SOURCE, root / BUILT
    lay(root, source)
    shutil.rmtree(built, ignore_errors=True)
    command = [
        *(sys.executable, "-m", "sphinx", "--builder", "html", "--quiet", "--fail-on-warning"),
        *(
            "--jobs",
            "2",
            "--conf-dir",
            str(root / OWN),
            "--doctree-dir",
            str(built.with_name("site-doctrees")),
        ),
        *(str(source), str(built)),
    ]
    if subprocess.run(command, cwd=root, check=False).returncode:
        raise AuthoringError("site: Sphinx warned, see above: every warning is an error")
    echo(_decks(root, built))
    size = sum(path.stat().st_size for path in built.rglob("*") if path.is_file())
    echo(f"{shown(built / 'index.html', root)} written, {size / 1e6:.0f} MB in all")
    return built


def lay(root: Path, source: Path) -> None:
    """The folder that Sphinx reads: the repository's files in their places, and those
    of ``docs/site`` at the top.
    """
    shutil.rmtree(source, ignore_errors=True)
    for pattern in LAID:
        for path in root.glob(pattern):
            _copy(path, source / path.relative_to(root))
    for path in (root / OWN).glob("*.md"):
        _copy(path, source / path.name)
    for folder in FOLDERS:
        packed = source / "folders" / folder.replace("/", "-")
        shutil.make_archive(str(packed), "zip", source, folder)


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def _decks(root: Path, built: Path) -> str:
    """Put decks and sheet beside the pages, and say how many of them were built."""
    pages = [root / slides.BUILT / f"{path.stem[3:5]}.html" for path in slides.sources(root)]
    pages.append(root / sheet.PAGE)
    (built / "decks").mkdir()
    for path in (path for page in pages for path in (page, page.with_suffix(".pdf"))):
        if path.is_file():
            shutil.copy(path, built / "decks")
    missing = [page.stem for page in pages if not page.is_file()]
    said = f"{len(pages) - len(missing)} of {len(pages)} decks and sheets are in it"
    if missing:
        said += f"; `make slides`, which needs npm, builds {', '.join(missing)}, in minutes"
    return said
