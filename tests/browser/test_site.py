"""The web site as a reader opens it: from disk, with the network off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pages import complaints

from course_lib.authoring import sheet, site

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "browser"  # what pages looked like, to look at
PHONE, LAPTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
SEEN = Path(__file__).with_name("seen.js").read_text(encoding="utf-8")
LOOKED_AT = (
    "index.html",
    "solutions/lab07_heads.html",
    "reference/course_lib.pruning.heads.html",
    "docs/own_models.html",
)


@pytest.fixture(scope="module")
def built() -> Path:
    return site.build(ROOT)


class Reader:
    """A page, and whatever it asked of the network or complained of."""

    def __init__(self, browser: Any, built: Path, **settings: Any) -> None:
        self.window = browser.new_context(viewport=LAPTOP, **settings)
        self.page, self.built, self.asked = self.window.new_page(), built, []
        self.said = complaints(self.page)
        self.page.route(re.compile(r"^(?!file:|data:|blob:)"), self._refuse)

    def _refuse(self, route: Any) -> None:
        self.asked.append(route.request.url)
        route.abort()

    def open(self, place: str) -> Any:
        self.page.goto(f"{self.built.as_uri()}/{place}")
        return self.page


@pytest.fixture
def reader(browser: Any, built: Path) -> Iterator[Reader]:
    opened = Reader(browser, built, color_scheme="light")
    yield opened
    opened.window.close()
    assert opened.asked == [], "nothing may be asked of the network"
    assert opened.said == []


def test_every_page(reader: Reader, built: Path) -> None:
    """One heading of the first rank, pictures that are there and described, formulas
    that are set, nothing wider than a phone, and links that lead somewhere.
    """
    reader.page.set_viewport_size(PHONE)
    others = {built / "decks", built / "_static"}  # decks have tests of their own
    own = [path for path in sorted(built.rglob("*.html")) if not others & {*path.parents}]
    markdown = (ROOT / sheet.SOURCE).read_text(encoding="utf-8")
    sides = {f"slides/{sheet.PAGE.name}": len(sheet.pages(markdown))}  # a title on each
    wrong, links, ids = [], [], {}
    for path in own:
        name = path.relative_to(built).as_posix()
        seen = reader.open(name).evaluate(SEEN)
        ids[path] = {*seen["ids"]}
        links += [(name, path, link) for link in seen["links"]]
        wrong += [f"{name}: {trouble}" for trouble in seen["troubles"]]
        if seen["h1"] != sides.get(name, 1):
            wrong.append(f"{name}: {seen['h1']} headings of the first rank")
        wrong += [f"{name}: {said}" for said in reader.said]
        reader.said.clear()
    for name, path, link in links:
        where = urlsplit(link)
        if where.scheme in ("https", "mailto"):
            continue
        target = path
        if where.path:
            target = (path.parent / unquote(where.path)).resolve()
        if not target.is_file():
            wrong.append(f"{name}: {link} leads nowhere")
        elif where.fragment and target in ids and unquote(where.fragment) not in ids[target]:
            wrong.append(f"{name}: {link}: there is no such place on that page")
    assert not wrong, "\n".join(wrong)
    assert len(own) > 50
    assert len(links) > 5000


def test_every_walkthrough_has_its_files_and_figures(reader: Reader, built: Path) -> None:
    for path in sorted((ROOT / "solutions").glob("lab*.py")):
        page = reader.open(f"solutions/{path.stem}.html")
        assert page.locator(".bd-article img").count() >= 3, path.stem
        downloads = page.locator("a.download").evaluate_all("all => all.map((a) => a.href)")
        assert sum(link.endswith(f"{path.stem}.ipynb") for link in downloads) == 2, path.stem
        if (ROOT / "slides" / "_build" / f"{path.stem[3:5]}.html").is_file():
            deck = page.locator(".bd-article a", has_text="slides").first
            assert (deck.get_attribute("href") or "").endswith(f"decks/{path.stem[3:5]}.html")


@pytest.mark.parametrize("way", ["list", "bar"])
def test_two_clicks_to_the_heads_of_a_model_of_ones_own(reader: Reader, way: str) -> None:
    page = reader.open("index.html")
    if way == "list":
        page.locator(".bd-article a", has_text="in blocks to copy").click()
    else:
        page.locator(".bd-header a", has_text="Your own model").click()
    page.locator(".bd-sidebar-secondary a", has_text="Heads").click()
    heading = page.locator("h2", has_text="Heads")
    heading.wait_for()
    page.wait_for_timeout(300)
    assert 0 <= heading.bounding_box()["y"] < LAPTOP["height"]
    assert "remove_heads(" in page.locator("section", has=heading).last.inner_text()


def test_what_one_searches_for(reader: Reader) -> None:
    page = reader.open("docs/instructors.html")
    page.keyboard.press("Control+K")
    page.keyboard.type("movement pruning")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html**")
    # results come one after the other: the summary stands there when all have
    page.locator("#search-results .search-summary", has_text="finished").wait_for()
    found = page.locator("#search-results li a").all_inner_texts()
    first = " · ".join(found[:8])
    assert "Lab 06" in first
    assert "course_lib.pruning.weights" in first
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "site-search.png")
    page.locator("#search-results li a", has_text="Lab 06").first.click()
    page.locator("h1", has_text="Lab 06").wait_for()


def test_dark(reader: Reader) -> None:
    page = reader.open("solutions/lab07_heads.html")

    def background() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    light = background()
    page.locator("button.theme-switch-button").first.click()
    page.locator("[data-theme='dark']:visible, button:visible", has_text="Dark").first.click()
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert background() < 150 < 600 < light
    page = reader.open("reference.html")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "it is remembered"
    assert background() < 150


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_of_some_pages(browser: Any, built: Path, scheme: str) -> None:
    opened = Reader(browser, built, color_scheme=scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for place in LOOKED_AT:
        for size in (LAPTOP, PHONE):
            opened.page.set_viewport_size(size)
            page = opened.open(place)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            name = f"site-{Path(place).stem}-{size['width']}-{scheme}.png"
            page.screenshot(path=PICTURES / name)
    opened.window.close()
    assert opened.asked == [] == opened.said


def test_a_figure_on_a_phone_keeps_its_size_and_moves_by_itself(browser: Any) -> None:
    style = (ROOT / site.OWN / "_static" / "site.css").read_text(encoding="utf-8")
    figure = '<img width="800" height="460" style="max-width: 100%; height: auto">'
    page = browser.new_page(viewport=PHONE)
    page.set_content(
        f"<style>{style}</style><div class='bd-article'><div class='output'>{figure}</div></div>"
    )
    width, box, all = page.evaluate(
        "[document.querySelector('img').clientWidth, document.querySelector('.output').clientWidth,"
        " document.documentElement.scrollWidth]"
    )
    page.close()
    assert width == 800 > PHONE["width"] >= all >= box  # a label of 11 points is as large
