"""Every link of README, notebooks, slides and cheat sheet leads somewhere; those into
the world are addresses one can open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(
    r"(?<!\\)\[[^\]]*\]\((?P<md><[^>]+>|[^)\s]+)[^)]*\)|(?:href|src)=\"(?P<html>[^\"]+)\""
)
BARE = re.compile(r"https?://[^\s)>\]`\"']+")
FILES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("data/*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("labs/*.ipynb"),
        *ROOT.glob("solutions/*.ipynb"),
        *ROOT.glob("slides/*.py"),
        *ROOT.glob("slides/*.md"),
        *ROOT.glob("course_lib/authoring/student_*.md"),
    ]
)
MADE_UP = ("example.org", "127.0.0.1", "localhost")


def texts(path: Path) -> Iterator[str]:
    """The prose of a file."""
    if path.suffix == ".md":
        yield path.read_text(encoding="utf-8")
        return
    notebook = jupytext.read(path) if path.suffix == ".py" else nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source


def prose(text: str) -> str:
    """Without code, where brackets are no links."""
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Headings as code hosts name them."""
    found = set()
    for text in texts(path):
        for heading in re.findall(
            r"^#+\s+(.*\S)\s*$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
        ):
            found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for text in texts(path):
        for found in LINK.finditer(prose(text)):
            link = (found["md"] or found["html"]).strip("<>")
            where = urlsplit(link)
            if where.scheme in ("http", "https", "mailto", "data"):
                continue
            target = (path.parent / unquote(where.path)).resolve() if where.path else path
            if path.name == "student_readme.md" and "$" in link:
                continue
            assert target.exists(), f"{link} leads nowhere"
            if where.fragment and target.exists():
                assert where.fragment in anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_addresses_are_ones_that_can_be_opened(path: Path) -> None:
    for text in texts(path):
        for address in BARE.findall(text):
            where = urlsplit(address.rstrip(".,;:"))
            assert where.scheme == "https" or where.hostname in MADE_UP, f"{address}: https"
            assert where.hostname in MADE_UP or re.fullmatch(
                r"([a-z0-9-]+\.)+[a-z]{2,}", where.hostname or ""
            ), address


def test_the_index_leads_through_all_of_it() -> None:
    page = "".join(texts(ROOT / "solutions" / "index.ipynb"))
    for source in sorted((ROOT / "solutions").glob("lab*.py")):
        deck = [f"../slides/{source.name}"] if (ROOT / "slides" / source.name).exists() else []
        for link in (f"../labs/{source.stem}.ipynb", f"({source.stem}.ipynb)", *deck):
            assert link in page, f"{link} is not in the index"
        assert f"labs/{source.stem}.ipynb" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "../slides/cheat_sheet.md" in page
    assert "course release FOLDER --repository OWNER/NAME" in page
