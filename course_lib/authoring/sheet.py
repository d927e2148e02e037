"""The cheat sheet, ``slides/cheat_sheet.md``, as one HTML file that needs no network
and one page of paper.
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
    ``cheat_sheet.pdf``, which must be one page.

    Returns:
        The files written.

    Raises:
        AuthoringError: without the source, or without npm. RuntimeError: if it does not
            fit on its page.
    """
    root = Path(root).resolve()
    source = root / SOURCE
    if not source.is_file():
        raise AuthoringError(
            f"{SOURCE}:1: there is no cheat sheet here: it belongs to the course's own folder"
        )
    content = render(source.read_text(encoding="utf-8"), webpage.assets(echo))
    return webpage.publish(root / PAGE, content, pages=1, root=root, echo=echo)


def render(markdown: str, modules: Path) -> str:
    """The sheet as one HTML page with everything in it: a title, and a block for each
    section.
    """
    from nbconvert.filters import markdown2html_mistune

    title, *sections = markdown.split("\n## ")
    return webpage.template(_TEMPLATE).render(
        title=title.removeprefix("# ").strip(),
        sections=[markdown2html_mistune("## " + section) for section in sections],
        styles=[webpage.formula_style(modules), webpage.text(_STYLE)],
        scripts=webpage.formula_scripts(modules),
    )
