"""One HTML file with everything in it, and its PDF: scripts, styles and fonts from npm
when it is built, none of them kept in the course.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from course_lib import files
from course_lib.authoring.errors import AuthoringError, shown
from course_lib.paths import cache_dir

PACKAGES = {
    "reveal.js": "6.0.2",
    "katex": "0.19.1",
    # with its own typeface a slide has the same lines on every machine: what fits where
    # it is tested fits everywhere
    "@fontsource/source-sans-3": "5.3.1",
    "@fontsource/source-code-pro": "5.3.1",
}
# of a Chromium that nobody sits before, and that asks the network for nothing of its
# own
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def assets(echo: Callable[[str], Any] = print) -> Path:
    """The folder ``node_modules`` with :data:`PACKAGES`, fetched once.

    Raises:
        AuthoringError: without npm, or if it fails.
    """
    place = cache_dir() / "npm"
    modules = place / "node_modules"
    if _there(modules):
        return modules
    npm = shutil.which("npm")
    if npm is None:
        raise AuthoringError(
            "slides: reveal.js, KaTeX and the typeface are fetched by npm, which is not on this"
            " machine: install Node.js (nodejs.org; Debian, Ubuntu: apt install npm)"
        )
    place.mkdir(parents=True, exist_ok=True)
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    # of two builds beside each other the second waits, and finds it done
    with FileLock(place / ".lock"):
        if not _there(modules):
            echo(f"fetching {', '.join(wanted)} …")
            command = [
                npm,
                "install",
                "--prefix",
                str(place),
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                *wanted,
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                raise AuthoringError(
                    f"slides: npm could not fetch {', '.join(wanted)}: {done.stderr.strip()[-500:]}"
                )
    return modules


def _there(modules: Path) -> bool:
    return all(_version(modules / name) == version for name, version in PACKAGES.items())


def _version(package: Path) -> str | None:
    try:
        return json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError):
        return None


def template(path: Path) -> Any:
    """A page's Jinja template; what it does not know is an error."""
    import jinja2

    loader = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True
    )
    return loader.from_string(path.read_text(encoding="utf-8"))


def text(path: Path) -> str:
    """A style sheet, to stand inside a page."""
    return path.read_text(encoding="utf-8")


def script(path: Path) -> str:
    """A script, to stand inside a page."""
    # as a string inside a script, it would end it
    return text(path).replace("</script", "<\\/script")


def formula_style(modules: Path) -> str:
    """KaTeX's style sheet with its fonts."""
    folder = modules / "katex" / "dist"
    return _with_fonts(text(folder / "katex.min.css"), folder)


def type_style(modules: Path) -> str:
    """The typeface of slides, with its fonts: Source Sans 3, and Source Code Pro for
    code.
    """
    sheets = [
        *(
            modules / "@fontsource" / "source-sans-3" / f"{cut}.css"
            for cut in ("400", "400-italic", "700")
        ),
        modules / "@fontsource" / "source-code-pro" / "400.css",
    ]
    faces = []
    for sheet in sheets:
        for face in re.findall(r"@font-face\s*\{.*?\}", text(sheet), re.DOTALL):
            if re.search(r"-(latin|latin-ext|greek)-\d", face):
                faces.append(_with_fonts(face, sheet.parent))
    return "\n".join(faces)


def typeface(modules: Path) -> Path:
    """A folder with the slides' typeface as TrueType, for figures: matplotlib cannot
    read the fonts of web pages.
    """
    from fontTools.ttLib import TTFont  # comes with matplotlib

    place = modules.parent / f"typeface-{PACKAGES['@fontsource/source-sans-3']}"
    with FileLock(modules.parent / ".lock"):
        if not place.exists():
            made = Path(tempfile.mkdtemp(dir=modules.parent))
            for cut in ("400-normal", "400-italic", "700-normal"):
                name = f"source-sans-3-latin-{cut}"
                font = TTFont(modules / "@fontsource" / "source-sans-3" / "files" / f"{name}.woff")
                font.flavor = None
                # less air above and below each line than a page wants: figures set
                # labels line by line
                font["hhea"].ascent, font["hhea"].descent = 860, -240
                font.save(made / f"{name}.ttf")
            made.rename(place)
    return place


def formula_scripts(modules: Path) -> list[str]:
    """KaTeX, and what finds the formulas of a page."""
    folder = modules / "katex" / "dist"
    return [script(folder / "katex.min.js"), script(folder / "contrib" / "auto-render.min.js")]


def _with_fonts(css: str, folder: Path) -> str:
    """A style sheet with its woff2 fonts inside; the older formats beside them are left
    out.
    """

    def inside(found: re.Match[str]) -> str:
        data = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'url(data:font/woff2;base64,{data}) format("woff2")'

    css = re.sub(r"url\(([^)]+\.woff2)\)\s*format\([\"']woff2[\"']\)", inside, css)
    return re.sub(r",\s*url\([^)]+\.(woff|ttf)\)\s*format\([^)]+\)", "", css)


def chromium() -> str | None:
    """A Chromium on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


def publish(
    page: Path,
    content: str,
    pages: int,
    root: Path,
    query: str = "",
    echo: Callable[[str], Any] = print,
    paper: bool = True,
) -> list[Path]:
    """Write a page and, with Chromium on this machine, its PDF; the files written.
    Without ``paper``, the page alone. Other arguments and errors as of :func:`to_pdf`.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(page, content.encode())
    printed = to_pdf(page, query, pages, echo) if paper else None
    written = [page] if printed is None else [page, printed]
    echo(", ".join(shown(path, root) for path in written) + " written")
    return written


def to_pdf(page: Path, query: str, pages: int, echo: Callable[[str], Any] = print) -> Path | None:
    """Print a page that lies on disk; None, and a sentence why, where this machine has
    no Chromium.

    Args:
        query: goes behind the page's address.
        pages: that there must be.

    Raises:
        RuntimeError: if the browser fails, or prints another number of pages.
    """
    browser = chromium()
    if browser is None:
        echo(
            f"{page.stem}.pdf was not made: there is no Chromium on this machine (Debian, Ubuntu:"
            " apt install chromium)"
        )
        return None
    path = page.with_suffix(".pdf")
    path.unlink(missing_ok=True)
    # ms, for what a page does when its fonts have come; it ends as soon as nothing is
    # left
    waits = "--virtual-time-budget=20000"
    command = [
        browser,
        *FLAGS,
        waits,
        "--no-pdf-header-footer",
        f"--print-to-pdf={path}",
        f"{page.as_uri()}{query}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    printed = len(re.findall(rb"/Type /Page\b", path.read_bytes())) if path.exists() else 0
    if done.returncode or printed != pages:
        said = done.stderr.strip()[-500:]
        raise RuntimeError(f"{browser} printed {printed} pages of {page.name}, not {pages}: {said}")
    return path
