"""The decks and the cheat sheet as one opens them: from disk, with the network off."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pages import STILL, complaints

from course_lib.authoring import sheet, slides

ROOT = Path(__file__).parents[2]
DECKS = [path.stem for path in reversed(slides.sources(ROOT))]  # the longest first
FRAME = (1280, 720)

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None,
    reason="no npm on this machine: the decks were not built (Debian, Ubuntu: apt install npm)",
)


TYPE = "[...document.querySelectorAll('.room')].map((room) => room.style.fontSize)"  # of each slide


@contextmanager
def offline(browser: Any, path: Path, query: str = "") -> Iterator[Any]:
    """The page from disk with every request blocked; ``asked`` and ``said`` are what it
    asked for and complained of.
    """
    opened = browser.new_page(viewport={"width": FRAME[0], "height": FRAME[1]})
    opened.asked, opened.said = [], complaints(opened)

    def block(route) -> None:
        opened.asked.append(route.request.url)
        route.abort()

    opened.add_init_script(STILL)
    opened.route(re.compile(r"^(?!file:|data:|blob:)"), block)
    opened.goto(path.as_uri() + query)
    opened.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=30_000)
    try:
        yield opened
    finally:
        opened.close()


# of the slide that is shown: the text alternative of each, and where it lies
FIGURES = """[...document.querySelectorAll('section.present .output img')].map((figure) => {
    const { left, top, right, bottom } = figure.getBoundingClientRect();
    return [figure.alt, [left, top, right, bottom]];
})"""
LEGIBLE = Path(__file__).with_name("legible.js").read_text()
LAST_ROW = FRAME[1] / 22  # CSS pixels: letters that are smaller cannot be read from there
# of the height below the heading, where a figure is: it should have been drawn larger
LEFT_OVER = 0.2


@pytest.mark.parametrize("name", DECKS)
def test_a_deck(browser: Any, name: str) -> None:
    """Built, opened, looked through, printed: in one test, since building it takes most
    of the time. One deck is printed as ``course slides`` does it, by a Chromium of its
    own; the others by the one that has opened them.
    """
    deck = ROOT / slides.BUILT / f"{name[3:5]}.html"
    alone = name == DECKS[-1]
    assert deck in slides.build(ROOT, [name], paper=alone)
    with offline(browser, deck) as page:
        every_slide_can_be_read(page, deck.with_suffix(""))
        notes_and_questions(page)
        on_screen = page.evaluate(TYPE)
        assert page.asked == [], "nothing may be asked of the network"
        assert page.said == []
    with offline(browser, deck, "?print-pdf") as page:
        assert page.evaluate(TYPE) == on_screen, "on paper the same type"
        if not alone:
            path = deck.with_suffix(".pdf")
            page.pdf(path=path, prefer_css_page_size=True, print_background=True)
    printed = re.findall(rb"/Type /Page\b", deck.with_suffix(".pdf").read_bytes())
    assert len(printed) == deck.read_text().count("<section "), "a slide a page"


def every_slide_can_be_read(page, pictures: Path) -> None:
    """From the last row: text and letters in figures are large, nothing sticks out; a
    picture of each slide is kept.

    Exempt are the slide's number, indices and exponents in formulas, and what stands
    above or below their signs.
    """
    from PIL import Image

    assert page.evaluate("document.querySelectorAll('.katex').length") > 0, "formulas are set"
    assert page.evaluate("document.querySelectorAll('.katex-error').length") == 0
    count = page.evaluate("Reveal.getTotalSlides()")
    assert 20 <= count <= 34, (
        "for 75 minutes: a slide holds less than a page, and two minutes are enough for it"
    )
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("*.png"):
        old.unlink()
    wrong: list[str] = []
    for number in range(count):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        where = f"slide {number + 1}, {page.evaluate('Reveal.getCurrentSlide().dataset.source')}"
        wrong += [f"{where}: {said}" for said in what_is_wrong(page.evaluate(LEGIBLE))]
        text = page.evaluate("Reveal.getCurrentSlide().innerText")
        assert "$" not in text, f"slide {number + 1}: a formula that was not set: {text}"
        raw = page.screenshot(path=pictures / f"{number + 1:02d}.png")
        shown = Image.open(io.BytesIO(raw)).convert("L")
        for alt, box in page.evaluate(FIGURES):
            assert len(alt) > 20, f"slide {number + 1}"
            dark, light = shown.crop(box).getextrema()
            assert light - dark > 100, f"slide {number + 1}: an empty figure"
    assert not wrong


def what_is_wrong(seen: dict[str, Any]) -> list[str]:
    """With a slide as ``legible.js`` sees it."""
    said = list(seen["troubles"])
    (text, words), (label, drawn) = seen["text"], seen["label"]
    if text < LAST_ROW:
        said.append(
            f"{words!r} has {text:.1f} px, and less than {LAST_ROW:.1f} cannot be read from the last row"
        )
    if label < max(LAST_ROW, seen["body"] - 0.1):
        said.append(f"{drawn!r} in a figure has {label:.1f} px, the text has {seen['body']:.1f}")
    if seen["figures"] and seen["left"] > LEFT_OVER:
        said.append(f"{seen['left']:.0%} of the height are empty: the figure can be larger")
    return said


def notes_and_questions(page) -> None:
    notes = page.evaluate("document.querySelectorAll('aside.notes').length")
    assert notes >= 5
    titles = page.evaluate(
        "[...document.querySelectorAll('.slides h2')].map((title) => title.innerText)"
    )
    questions = [i for i, title in enumerate(titles) if title.startswith("Two minutes")]
    assert len(questions) >= 2, "a two-minute question about every ten slides"


def test_the_cheat_sheet_is_one_sheet_and_sets_its_formulas(browser: Any) -> None:
    written = sheet.build(ROOT)  # which raises where the paper has other pages than its source
    assert [path.suffix for path in written] == [".html", ".pdf"]
    with offline(browser, written[0]) as opened:
        assert opened.locator("article").count() == 2, "both sides of one sheet of paper"
        assert opened.evaluate("document.querySelectorAll('.katex').length") > 80
        assert opened.evaluate("document.querySelectorAll('.katex-error').length") == 0
        text = opened.locator("main").evaluate("element => element.innerText")
        assert "$" not in text, "a formula that was not set"
        wide = "[...document.querySelectorAll('p, li, td, th')].filter((part) => part.scrollWidth > part.clientWidth + 1)"
        assert opened.evaluate(f"{wide}.map((part) => part.innerText)") == [], (
            "what is wider than its column"
        )
        opened.screenshot(path=written[0].with_suffix(".png"), full_page=True)
        assert opened.asked == []
        assert opened.said == []
