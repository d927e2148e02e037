"""Lecture decks: ``slides/labNN_*.py`` (percent source) executed, and written as one HTML file each that needs no network.

A cell begins a slide, a step of one, or its notes, by its metadata: ``slideshow={"slide_type": "slide"}``, ``"fragment"``,
``"notes"``; ``"skip"`` is run and not shown, and a cell without goes on where the last one was. Of code cells only the
output is shown, but with ``tags=["code"]`` the source, too. reveal.js and KaTeX come from npm when decks are built, and
go into each file with their styles and fonts; nothing of them is kept in the course.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib import files
from course_lib.authoring.errors import AuthoringError, error, shown
from course_lib.authoring.execute import run
from course_lib.paths import cache_dir

PACKAGES = {"reveal.js": "6.0.2", "katex": "0.19.1"}
CELL_TIMEOUT = 300.0  # seconds
BUILT = Path("slides") / "_build"
_TEMPLATE = Path(__file__).with_name("deck.html.j2")
_STYLE = Path(__file__).with_name("deck.css")
_TYPES = {"slide", "fragment", "notes", "skip", "-"}


@dataclass
class Slide:
    """A slide: its steps as HTML, and what the speaker says beside it.

    Attributes:
        parts: (HTML, does it wait for a step?) in order.
        notes: HTML.
        at: file and line where it begins.
    """

    at: str
    parts: list[tuple[str, bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def sources(root: Path) -> list[Path]:
    """The decks' sources, by number."""
    return sorted((Path(root) / "slides").glob("lab[0-9][0-9]_*.py"))


def build(
    root: Path, names: Iterable[str] | None = None, echo: Callable[[str], Any] = print, timeout: float = CELL_TIMEOUT
) -> list[Path]:
    """Execute the decks and write ``slides/_build/NN.html``; with Chromium on this machine, ``NN.pdf`` beside it.

    Args:
        root: the course folder.
        names: "lab00", "00"; None: all.
        echo: is told what happens, a line at a time.
        timeout: seconds that one cell may take.

    Returns:
        The files written.

    Raises:
        AuthoringError: where a source is wrong or a cell fails, naming file and line; where npm is missing.
    """
    root = Path(root).resolve()
    chosen = _chosen(sources(root), names)
    libraries = assets(echo)
    written: list[Path] = []
    for path in chosen:
        number = path.stem[3:5]
        echo(f"{shown(path, root)} is being executed …")
        notebook, where = _executed(path, root, echo, timeout)
        page = root / BUILT / f"{number}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        files.put(page, render(slides(notebook, where), _title(notebook, where), libraries).encode())
        written.append(page)
        if browser := chromium():
            written.append(to_pdf(page, browser))
        else:
            echo(
                f"{page.stem}.pdf was not made: there is no Chromium on this machine (Debian, Ubuntu: apt install chromium)"
            )
        echo(", ".join(shown(p, root) for p in written if p.stem == number) + " written")
    return written


def _chosen(paths: list[Path], names: Iterable[str] | None) -> list[Path]:
    if not paths:
        raise AuthoringError("slides: there is no deck here: they are in slides/ of the course's own folder")
    if names is None:
        return paths
    by_number = {path.stem[3:5]: path for path in paths}
    chosen = []
    for name in names:
        number = re.sub(r"^lab", "", name)[:2].zfill(2)
        if number not in by_number:
            there = ", ".join(f"lab{n}" for n in by_number) or "none yet"
            raise AuthoringError(f"slides: there is no deck {name!r}: there are {there}")
        chosen.append(by_number[number])
    return chosen


def _executed(path: Path, root: Path, echo: Callable[[str], Any], timeout: float) -> tuple[Any, list[str]]:
    """The notebook with outputs, and for each cell where it begins in the source."""
    import jupytext

    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    begins = [i for i, line in enumerate(text.splitlines(), start=1) if line.startswith("# %%")]
    file = shown(path, root)
    spans = []
    for cell, first in zip(notebook.cells, begins, strict=True):
        spans.append((file, [first + 1 + i for i in range(len(cell.source.splitlines()) or 1)]))
    for line in run(notebook, spans, path.stem[:5], path.parent, root, timeout, {"COURSE_FIGURES": "svg"}):
        echo(line)
    return notebook, [f"{file}:{lines[0]}" for _, lines in spans]


def _title(notebook: Any, where: list[str]) -> str:
    for cell in notebook.cells:
        if found := re.search(r"^# (.+)$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None:
            return found[1]
    file, line = where[0].rsplit(":", 1)
    raise error(file, int(line), "a deck begins with a slide with a title: # Counting cost")


def slides(notebook: Any, where: list[str]) -> list[Slide]:
    """The slides of an executed notebook.

    Raises:
        AuthoringError: at a cell of an unknown type, or before the first slide.
    """
    found: list[Slide] = []
    kind = "-"
    for cell, at in zip(notebook.cells, where, strict=True):
        said = cell.metadata.get("slideshow", {}).get("slide_type", "-")
        file, line = at.rsplit(":", 1)
        if said not in _TYPES:
            raise error(file, int(line), f"a cell is one of {', '.join(sorted(_TYPES))}, not {said!r}")
        kind = said if said != "-" else "slide" if kind == "skip" else kind
        if kind == "skip":
            continue
        if said == "slide":
            found.append(Slide(at))
        if not found:
            raise error(
                file, int(line), 'the first cell that is shown begins a slide: slideshow={"slide_type": "slide"}'
            )
        if part := _html(cell):
            if kind == "notes":
                found[-1].notes.append(part)
            else:
                found[-1].parts.append((part, said == "fragment"))
    return found


def _html(cell: Any) -> str:
    from nbconvert.filters import markdown2html_mistune

    if cell.cell_type == "markdown":
        return markdown2html_mistune(cell.source)
    if cell.cell_type != "code":
        return ""
    parts = []
    if "code" in cell.metadata.get("tags", []):
        parts.append(f"<pre class='source'><code>{_highlighted(cell.source)}</code></pre>")
    parts += [_output(output) for output in cell.outputs]
    return "\n".join(part for part in parts if part)


def _highlighted(source: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(source, PythonLexer(), HtmlFormatter(nowrap=True))


def _output(output: Any) -> str:
    from nbconvert.filters import markdown2html_mistune

    if output.output_type == "stream":
        return f"<pre class='said'>{html.escape(output.text.strip())}</pre>"
    data = output.get("data", {})
    if "text/html" in data:
        return f"<div class='output'>{data['text/html']}</div>"
    if "text/markdown" in data:
        return f"<div class='output'>{markdown2html_mistune(data['text/markdown'])}</div>"
    if "text/plain" in data:
        return f"<pre class='said'>{html.escape(data['text/plain'])}</pre>"
    return ""


# ------------------------------------------------------------------------------------------------------------- one file
def assets(echo: Callable[[str], Any] = print) -> Path:
    """The folder ``node_modules`` with :data:`PACKAGES`, fetched once.

    Raises:
        AuthoringError: without npm, or if it fails.
    """
    place = cache_dir() / "npm"
    modules = place / "node_modules"
    if all(_version(modules / name) == version for name, version in PACKAGES.items()):
        return modules
    npm = shutil.which("npm")
    if npm is None:
        raise AuthoringError(
            "slides: reveal.js and KaTeX are fetched by npm, which is not on this machine: install Node.js (nodejs.org; Debian, Ubuntu: apt install npm)"
        )
    place.mkdir(parents=True, exist_ok=True)
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    echo(f"fetching {' and '.join(wanted)} …")
    command = [npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", "--ignore-scripts", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AuthoringError(f"slides: npm could not fetch {' and '.join(wanted)}: {done.stderr.strip()[-500:]}")
    return modules


def _version(package: Path) -> str | None:
    try:
        return json.loads((package / "package.json").read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError):
        return None


def render(deck: list[Slide], title: str, modules: Path) -> str:
    """The deck as one HTML page with everything in it."""
    import jinja2
    from pygments.formatters import HtmlFormatter

    def text(*parts: str) -> str:
        return modules.joinpath(*parts).read_text(encoding="utf-8")

    def script(*parts: str) -> str:
        return text(*parts).replace("</script", "<\\/script")  # as a string inside a script, it would end it

    katex = modules / "katex" / "dist"
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True).from_string(
        _TEMPLATE.read_text(encoding="utf-8")
    )
    return template.render(
        title=html.escape(title),
        slides=deck,
        styles=[
            text("reveal.js", "dist", "reset.css"),
            text("reveal.js", "dist", "reveal.css"),
            _with_fonts((katex / "katex.min.css").read_text(encoding="utf-8"), katex),
            HtmlFormatter(style="default").get_style_defs("pre.source"),
            _STYLE.read_text(encoding="utf-8"),
        ],
        scripts=[
            script("katex", "dist", "katex.min.js"),
            script("katex", "dist", "contrib", "auto-render.min.js"),
            script("reveal.js", "dist", "reveal.js"),
            script("reveal.js", "dist", "plugin", "notes.js"),
        ],
    )


def _with_fonts(css: str, folder: Path) -> str:
    """A style sheet with its woff2 fonts inside; the older formats beside them are left out."""

    def inside(found: re.Match[str]) -> str:
        data = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'url(data:font/woff2;base64,{data}) format("woff2")'

    css = re.sub(r"url\(([^)]+\.woff2)\)\s*format\([\"']woff2[\"']\)", inside, css)
    return re.sub(r",\s*url\([^)]+\.(woff|ttf)\)\s*format\([^)]+\)", "", css)


# ------------------------------------------------------------------------------------------------------------------ PDF
def chromium() -> str | None:
    """A Chromium on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


def to_pdf(page: Path, browser: str) -> Path:
    """Print a deck, a slide a page.

    Raises:
        RuntimeError: if the browser fails, or prints another number of pages.
    """
    path = page.with_suffix(".pdf")
    path.unlink(missing_ok=True)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-pdf-header-footer"]
    command = [browser, *flags, f"--print-to-pdf={path}", f"{page.as_uri()}?print-pdf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    pages = len(re.findall(rb"/Type /Page\b", path.read_bytes())) if path.exists() else 0
    wanted = page.read_text(encoding="utf-8").count("<section ")
    if done.returncode or pages != wanted:
        said = done.stderr.strip()[-500:]
        raise RuntimeError(f"{browser} printed {pages} of the {wanted} slides of {page.name}: {said}")
    return path
