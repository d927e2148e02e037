"""Decks from percent source: which cell goes on which slide, what is refused, what the page holds."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest

from course_lib.authoring import slides, webpage
from course_lib.authoring.errors import AuthoringError


def notebook(text: str):
    book = jupytext.reads(text.lstrip(), fmt="py:percent")
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text=f"said by {cell.source.strip()}")]
    return book, [f"slides/lab99_x.py:{i}" for i in range(1, len(book.cells) + 1)]


DECK = """
# %% slideshow={"slide_type": "skip"}
hidden = 1

# %% [markdown] slideshow={"slide_type": "slide"}
# # A title with $x_1 < 2$

# %% [markdown] slideshow={"slide_type": "fragment"}
# a step

# %%
shown

# %% [markdown] slideshow={"slide_type": "notes"}
# for the speaker

# %%
# and this, computed

# %% tags=["code"] slideshow={"slide_type": "slide"}
source = "a < b"
"""


def test_cells_become_slides_steps_and_notes() -> None:
    first, second = slides.slides(*notebook(DECK))
    assert [waits for _, waits in first.parts] == [False, True, False]
    assert "said by shown" in first.parts[2][0]
    assert "for the speaker" in first.notes[0]
    assert "and this, computed" in first.notes[1], "a cell without a type goes on where the last one was"
    assert "source" in second.parts[0][0] and "class='source'" in second.parts[0][0]
    page = "".join(part for slide in (first, second) for part, _ in slide.parts)
    assert "hidden" not in page
    assert "$x_1 &lt; 2$" in page, "formulas are left to KaTeX, as they are"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('# %% [markdown] slideshow={"slide_type": "slides"}\n# # x', "not 'slides'"),
        ("# %% [markdown]\n# # x", "the first cell that is shown begins a slide"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str) -> None:
    with pytest.raises(AuthoringError, match=message) as raised:
        slides.slides(*notebook(text))
    assert str(raised.value).startswith("slides/lab99_x.py:1:")


def test_an_unknown_deck_is_named_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "slides").mkdir()
    (tmp_path / "slides" / "lab00_a.py").write_text(DECK)
    with pytest.raises(AuthoringError, match="no deck 'lab77': there are lab00"):
        slides.build(tmp_path, ["lab77"])


def test_where_there_is_no_deck_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match="there is no deck here"):
        slides.build(tmp_path)


def test_without_npm_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AuthoringError, match="apt install npm"):
        webpage.assets()


def test_a_page_has_all_inside(tmp_path: Path) -> None:
    """With stand-ins for what npm brings: no address is left in the page, and no script can end early."""
    for name, text in {
        "reveal.js/dist/reset.css": "a {}",
        "reveal.js/dist/reveal.css": "b {}",
        "reveal.js/dist/reveal.js": "const end = '</script>';",
        "reveal.js/dist/plugin/notes.js": "",
        "katex/dist/katex.min.css": "@font-face {src: url(fonts/K.woff2) format('woff2'),url(fonts/K.ttf) format('truetype')}",
        "katex/dist/katex.min.js": "",
        "katex/dist/contrib/auto-render.min.js": "",
        "katex/dist/fonts/K.woff2": "letters",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    page = slides.render(slides.slides(*notebook(DECK)), "A & B", tmp_path)
    assert "<title>A &amp; B</title>" in page
    assert "fonts/" not in page and "font/woff2;base64,bGV0dGVycw==" in page
    assert page.count("</script>") == page.count("<script>")
    assert page.count("<section ") == 2
    assert '<div class="part fragment">' in page and '<aside class="notes">' in page
