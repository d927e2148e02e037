"""The cheat sheet, ``slides/cheat_sheet.md``, as one HTML file that needs no network
and one sheet of paper, printed on both sides: a page for each ``# `` heading.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.authoring import webpage
from course_lib.authoring.errors import AuthoringError

SOURCE, PAGE = Path("slides") / "cheat_sheet.md", Path("slides") / "_build" / "cheat_sheet.html"
_TEMPLATE = Path(__file__).with_name("sheet.html.j2")
_STYLE = Path(__file__).with_name("sheet.css")


def build(root: Path, echo: Callable[[str], Any] = print) -> list[Path]:
    """Write ``slides/_build/cheat_sheet.html``; with Chromium on this machine
    ``cheat_sheet.pdf``, which must have as many pages as the source.

    Returns:
        The files written.

    Raises:
        AuthoringError: without the source, or without npm. RuntimeError: if it does not
            fit on its pages.
    """
    root = Path(root).resolve()
    source = root / SOURCE
    if not source.is_file():
        raise AuthoringError(
            f"{SOURCE}:1: there is no cheat sheet here: it belongs to the course's own folder"
        )
    text = source.read_text(encoding="utf-8")
    content = render(text, webpage.assets(echo))
    return webpage.publish(root / PAGE, content, pages=len(pages(text)), root=root, echo=echo)


def pages(markdown: str) -> list[dict[str, Any]]:
    """Each page's title, and its sections as Markdown."""
    found = []
    for part in ("\n" + markdown).split("\n# ")[1:]:
        title, *sections = part.split("\n## ")
        found.append(
            {"title": title.strip(), "sections": ["## " + section for section in sections]}
        )
    return found


def render(markdown: str, modules: Path) -> str:
    """The sheet as one HTML page with everything in it: for each page of paper a title,
    and a block for each section.
    """
    from nbconvert.filters import markdown2html_mistune

    found = pages(markdown)
    for page in found:
        page["sections"] = [markdown2html_mistune(section) for section in page["sections"]]
    return webpage.template(_TEMPLATE).render(
        title=found[0]["title"].partition(":")[0],
        pages=found,
        styles=[
            webpage.formula_style(modules),
            webpage.type_style(modules),
            webpage.text(_STYLE),
        ],
        scripts=webpage.formula_scripts(modules),
    )
