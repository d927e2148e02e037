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
from pages import complaints

from course_lib.authoring import sheet, slides

ROOT = Path(__file__).parents[2]
DECKS = [path.stem for path in reversed(slides.sources(ROOT))]  # the longest first
FRAME = (1280, 720)

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None,
    reason="no npm on this machine: the decks were not built (Debian, Ubuntu: apt install npm)",
)


@contextmanager
def offline(browser: Any, path: Path) -> Iterator[Any]:
    """The page from disk with every request blocked; ``asked`` and ``said`` are what it asked for and complained of."""
    opened = browser.new_page(viewport={"width": FRAME[0], "height": FRAME[1]})
    opened.asked, opened.said = [], complaints(opened)

    def block(route) -> None:
        opened.asked.append(route.request.url)
        route.abort()

    opened.route(re.compile(r"^(?!file:|data:|blob:)"), block)
    opened.goto(path.as_uri())
    opened.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=30_000)
    try:
        yield opened
    finally:
        opened.close()


# what reaches beyond the frame, of the slide that is shown, all its steps there; in CSS pixels of a 1280 × 720 slide
OUTSIDE = """() => {
  const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
  const frame = document.querySelector(".slides").getBoundingClientRect();
  const found = [];
  for (const element of slide.querySelectorAll("h1, h2, h3, p, li, td, th, pre, img, .katex")) {
    if (element.closest("aside")) continue;
    const box = element.getBoundingClientRect();
    if (!box.width || element.closest(".katex-mathml")) continue;
    const over = Math.max(box.bottom - frame.bottom, box.right - frame.right, frame.left - box.left, frame.top - box.top) / scale;
    if (over > 1) found.push(`${element.tagName} by ${Math.round(over)}: ${(element.innerText || element.alt || "").slice(0, 60)}`);
  }
  return found;
}"""


@pytest.mark.parametrize("name", DECKS)
def test_a_deck(browser: Any, name: str) -> None:
    """Built, opened, looked through, printed: in one test, since building it takes most of the time."""
    deck = ROOT / slides.BUILT / f"{name[3:5]}.html"
    assert deck in slides.build(ROOT, [name])
    with offline(browser, deck) as page:
        every_slide_fits(page, deck.with_suffix(""))
        notes_and_questions(page)
        assert page.asked == [], "nothing may be asked of the network"
        assert page.said == []
    printed = re.findall(rb"/Type /Page\b", deck.with_suffix(".pdf").read_bytes())
    assert len(printed) == deck.read_text().count("<section "), "a slide a page"


def every_slide_fits(page, pictures: Path) -> None:
    """Formulas are set, figures are seen, nothing sticks out; a picture of each slide is kept."""
    from PIL import Image

    assert page.evaluate("document.querySelectorAll('.katex').length") > 0, "formulas are set"
    assert page.evaluate("document.querySelectorAll('.katex-error').length") == 0
    count = page.evaluate("Reveal.getTotalSlides()")
    assert 20 <= count <= 30, "for 75 minutes"
    pictures.mkdir(exist_ok=True)
    for number in range(count):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        page.wait_for_timeout(100)
        assert not page.evaluate(OUTSIDE), f"slide {number + 1}"
        raw = page.evaluate("Reveal.getCurrentSlide().innerText")
        assert "$" not in raw, f"slide {number + 1}: a formula that was not set: {raw}"
        for picture in page.locator("section.present .output img").all():
            assert len(picture.get_attribute("alt") or "") > 20, f"slide {number + 1}"
            shown = Image.open(io.BytesIO(picture.screenshot())).convert("L")
            light, dark = shown.getextrema()[1], shown.getextrema()[0]
            assert light - dark > 100, f"slide {number + 1}: an empty figure"
        page.screenshot(path=pictures / f"{number + 1:02d}.png")


def notes_and_questions(page) -> None:
    notes = page.evaluate("document.querySelectorAll('aside.notes').length")
    assert notes >= 5
    titles = page.evaluate("[...document.querySelectorAll('.slides h2')].map((title) => title.innerText)")
    questions = [i for i, title in enumerate(titles) if title.startswith("Two minutes")]
    assert len(questions) >= 2, "a two-minute question about every ten slides"


def test_the_cheat_sheet_is_one_page_and_sets_its_formulas(browser: Any) -> None:
    written = sheet.build(ROOT)  # which raises where the paper is not one page
    assert [path.suffix for path in written] == [".html", ".pdf"]
    with offline(browser, written[0]) as opened:
        assert opened.evaluate("document.querySelectorAll('.katex').length") > 40
        assert opened.evaluate("document.querySelectorAll('.katex-error').length") == 0
        text = opened.locator("main").evaluate("element => element.innerText")
        assert "$" not in text, "a formula that was not set"
        wide = (
            "[...document.querySelectorAll('p, li, td, th')].filter((part) => part.scrollWidth > part.clientWidth + 1)"
        )
        assert opened.evaluate(f"{wide}.map((part) => part.innerText)") == [], "what is wider than its column"
        opened.screenshot(path=written[0].with_suffix(".png"), full_page=True)
        assert opened.asked == []
        assert opened.said == []
