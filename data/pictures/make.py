"""``python data/pictures/make.py``: the README's pictures of a lab, a slide and a page of
feedback, from the real thing. Needs Chromium and a deck: ``course slides 07``.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from course_lib import demo  # noqa: E402
from course_lib.authoring.webpage import FLAGS, chromium  # noqa: E402
from course_lib.grading.batch import run as batch  # noqa: E402

WIDTH = 900
HEIGHTS = {"lab": 365, "slide": 506, "feedback": 600}
SOURCE = next((ROOT / "solutions").glob("lab01_*.py"))
SLIDE = 11  # of deck 07, from 0: a figure
# what a student may write first: no absolute value
WRONG = """def magnitude_mask(weight: Tensor, sparsity: float) -> Tensor:
    k = round(sparsity * weight.numel())
    keep = torch.ones(weight.numel(), dtype=torch.bool)
    keep[weight.flatten().argsort(stable=True)[:k]] = False
    return keep.view_as(weight)"""


def lab(folder: Path) -> Path:
    """Exercise 1.1 with a wrong answer, and what ``check`` says to it."""
    cells = jupytext.read(SOURCE).cells
    at = next(i for i, cell in enumerate(cells) if re.search(r"^### 1\.1 ", cell.source, re.M))
    head = "from course_lib.grading import check\nimport torch\nfrom torch import Tensor"
    task = new_markdown_cell(cells[at].source)
    book = new_notebook(cells=[*map(new_code_cell, (head, WRONG, 'check("1.1")'))])
    book.cells.insert(1, task)
    NotebookClient(book, resources={"metadata": {"path": str(ROOT / "labs")}}).execute()
    book.cells = book.cells[2:]
    page = folder / "lab.html"
    page.write_text(HTMLExporter(mathjax_url="").from_notebook_node(book)[0], encoding="utf-8")
    return page


def feedback(folder: Path) -> Path:
    """A student's page, of a submission of lab 01 that is wrong in places."""
    cells = [c.replace("weight.abs()", "weight") for c in demo.samples(SOURCE)["half-done"]]
    book = new_notebook(cells=[*map(new_code_cell, [*cells, WRONG])])
    (folder / "in").mkdir()
    nbformat.write(book, folder / "in" / "student.ipynb")
    tests = ROOT / "tests" / "labs" / "lab01"
    batch.grade("lab01", folder / "in", folder / "report", tests=tests)
    return next((folder / "report" / "feedback").glob("*.html"))


def main() -> None:
    deck = ROOT / "slides" / "_build" / "07.html"
    if not deck.is_file():
        raise SystemExit(f"{deck} is missing: course slides 07")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        pages = {
            "lab": lab(folder).as_uri(),
            "slide": f"{deck.as_uri()}#/{SLIDE}",
            "feedback": feedback(folder).as_uri(),
        }
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        page = browser.new_page()
        for name, address in pages.items():
            page.set_viewport_size({"width": WIDTH, "height": HEIGHTS[name]})
            page.goto(address)
            page.wait_for_timeout(1500)
            page.screenshot(path=ROOT / "data" / "pictures" / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
