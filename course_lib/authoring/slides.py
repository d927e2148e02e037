"""Lecture decks: ``slides/labNN_*.py`` (percent source) executed, and written as one
HTML file each that needs no network.

A cell begins a slide, a step of one, or its notes, by its metadata:
``slideshow={"slide_type": "slide"}``, ``"fragment"``, ``"notes"``; ``"skip"`` is run
and not shown, and a cell without goes on where the last one was. Of code cells only the
output is shown, but with ``tags=["code"]`` the source, too.

A figure or table is seen before anything is said about it: what follows it on its slide is a step.

How a slide is laid out follows from what is on it. Its heading stands above; a figure
that is drawn narrow (see :func:`course_lib.show.output.show`) stands to the right of
the rest; all else stands one below the other. Type is as large as the room allows, and
never smaller than what can be read from the last row: a slide that holds too much fails
the browser's test.

reveal.js, KaTeX and the typeface come from npm when decks are built, and go into each
file; nothing of them is kept in the course.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.authoring import claims, source, webpage
from course_lib.authoring.errors import AuthoringError, Problems, error, shown
from course_lib.authoring.execute import run

CELL_TIMEOUT = 300.0  # seconds
BUILT = Path("slides") / "_build"
_TEMPLATE = Path(__file__).with_name("deck.html.j2")
_STYLE = Path(__file__).with_name("deck.css")
_FIGURE = re.compile(r"<(img|svg|table)\b")
_TYPES = {"slide", "fragment", "notes", "skip", "-"}


@dataclass
class Part:
    """What one cell shows of a slide, as HTML.

    Attributes:
        step: after how many of the speaker's keys it is seen.
        beside: a narrow figure, to the right of the rest.
    """

    html: str
    step: int = 0
    beside: bool = False


@dataclass
class Slide:
    """A slide, and what the speaker says beside it.

    Attributes:
        heading: HTML; "" where there is none.
        notes: HTML.
        at: file and line where it begins.
    """

    at: str
    heading: str = ""
    parts: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def sources(root: Path) -> list[Path]:
    """The decks' sources, by number."""
    return sorted((Path(root) / "slides").glob("lab[0-9][0-9]_*.py"))


def build(
    root: Path,
    names: Iterable[str] | None = None,
    echo: Callable[[str], Any] = print,
    timeout: float = CELL_TIMEOUT,
    paper: bool = True,
) -> list[Path]:
    """Execute the decks and write ``slides/_build/NN.html``; with Chromium on this
    machine, ``NN.pdf`` beside it.

    Args:
        root: the course folder.
        names: "lab00", "0" or a whole slug; None: all.
        echo: is told what happens, a line at a time.
        timeout: seconds that one cell may take.
        paper: print the decks, too.

    Returns:
        The files written.

    Raises:
        AuthoringError: where a source is wrong or a cell fails, naming file and line;
            where npm is missing.
    """
    root = Path(root).resolve()
    found = sources(root)
    if not found:
        raise AuthoringError(
            "slides: there is no deck here: they are in slides/ of the course's own folder"
        )
    chosen = source.chosen(found, names)
    libraries = webpage.assets(echo)
    written: list[Path] = []
    for path in chosen:
        echo(f"{shown(path, root)} is being executed …")
        notebook, where = _executed(path, root, webpage.typeface(libraries), echo, timeout)
        deck = slides(notebook, where)
        content = render(deck, _title(notebook, where), libraries)
        page = root / BUILT / f"{path.stem[3:5]}.html"
        written += webpage.publish(page, content, len(deck), root, "?print-pdf", echo, paper)
    return written


def _executed(
    path: Path, root: Path, typeface: Path, echo: Callable[[str], Any], timeout: float
) -> tuple[Any, list[str]]:
    """The notebook with outputs, its figures with letters of ``typeface``, and for each
    cell where it begins in the source.
    """
    import jupytext

    text, file = path.read_text(encoding="utf-8"), shown(path, root)
    notebook = jupytext.reads(text, fmt="py:percent")
    lines = [list(cell.lines) for cell in source.place_cells(notebook.cells, text, file)]
    problems = Problems()
    for cell, numbers in zip(notebook.cells, lines, strict=True):
        if cell.cell_type == "markdown":
            wrong = lambda line, what, at=numbers: problems.add(file, at[line - 1], what)  # noqa: E731
            cell.source = "\n".join(sum(claims.expand(cell.source, root, wrong), []))
    problems.stop()
    spans = [(file, numbers) for numbers in lines]
    env = {"COURSE_SLIDES": str(typeface)}
    for line in run(notebook, spans, path.stem[:5], path.parent, root, timeout, env):
        echo(line)
    return notebook, [f"{file}:{numbers[0]}" for numbers in lines]


def _title(notebook: Any, where: list[str]) -> str:
    for cell in notebook.cells:
        if found := (
            re.search(r"^# (.+)$", cell.source, re.MULTILINE)
            if cell.cell_type == "markdown"
            else None
        ):
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
            raise error(
                file, int(line), f"a cell is one of {', '.join(sorted(_TYPES))}, not {said!r}"
            )
        kind = said if said != "-" else "slide" if kind == "skip" else kind
        if kind == "skip":
            continue
        if said == "slide":
            found.append(Slide(at))
        if not found:
            raise error(
                file,
                int(line),
                'the first cell that is shown begins a slide: slideshow={"slide_type": "slide"}',
            )
        slide, pieces = found[-1], _pieces(cell)
        if kind == "notes":
            slide.notes += [html for html, _ in pieces]
            continue
        if pieces and not slide.parts and not slide.heading:
            slide.heading, rest = _heading(pieces[0][0])
            pieces = [(rest, pieces[0][1]), *pieces[1:]]
        step = (slide.parts[-1].step if slide.parts else 0) + (said == "fragment")
        for content, beside in (piece for piece in pieces if piece[0]):
            figures = any(_FIGURE.search(part.html) for part in slide.parts)
            step = step or int(figures and not _FIGURE.search(content))
            slide.parts.append(Part(content, step, beside))
    return found


def _heading(shown: str) -> tuple[str, str]:
    """The heading that a slide's first piece begins with, and the rest of it."""
    found = re.match(r"\s*(?:<div class='output'>\s*)?(<h[12][^>]*>.*?</h[12]>)", shown, re.DOTALL)
    if not found:
        return "", shown
    rest = shown.replace(found[1], "", 1)
    return found[1], rest if re.sub(r"<div class='output'>|</div>", "", rest).strip() else ""


def _pieces(cell: Any) -> list[tuple[str, bool]]:
    """What a cell shows: (HTML, does it stand beside the rest?)."""
    from nbconvert.filters import markdown2html_mistune

    if cell.cell_type == "markdown":
        return [(_unbroken(markdown2html_mistune(cell.source)), False)]
    if cell.cell_type != "code":
        return []
    pieces = [
        (_unbroken(_output(output)), output.get("metadata", {}).get("beside", False))
        for output in cell.outputs
    ]
    if "code" in cell.metadata.get("tags", []):
        pieces.insert(
            0, (f"<pre class='source'><code>{_highlighted(cell.source)}</code></pre>", False)
        )
    return [piece for piece in pieces if piece[0]]


def _unbroken(shown: str) -> str:
    """With no line ending between a number and what it belongs to (90 %, 3 × 3), and a
    space before each per cent sign, which Python's own format leaves out.
    """
    words = re.split(r"(<[^>]*>)", shown)  # every other one is a tag
    words[::2] = [re.sub(r"(?<=\d) ?%", "\u00a0%", text) for text in words[::2]]
    return re.sub(r"(?<=\d) ([×±]) (?=\d)", "\u00a0\\1\u00a0", "".join(words))


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


def render(deck: list[Slide], title: str, modules: Path) -> str:
    """The deck as one HTML page with everything in it."""
    from pygments.formatters import HtmlFormatter

    reveal = modules / "reveal.js" / "dist"
    return webpage.template(_TEMPLATE).render(
        title=html.escape(title),
        slides=deck,
        styles=[
            webpage.text(reveal / "reset.css"),
            webpage.text(reveal / "reveal.css"),
            webpage.formula_style(modules),
            webpage.type_style(modules),
            HtmlFormatter(style="default").get_style_defs("pre.source"),
            webpage.text(_STYLE),
        ],
        scripts=[
            *webpage.formula_scripts(modules),
            webpage.script(reveal / "reveal.js"),
            webpage.script(reveal / "plugin" / "notes.js"),
        ],
    )
