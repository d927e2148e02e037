"""Decks from percent source: which cell goes on which slide, what is refused, what the
page holds.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager

from course_lib.authoring import slides, webpage
from course_lib.authoring.errors import AuthoringError


def notebook(text: str):
    book = jupytext.reads(text.lstrip(), fmt="py:percent")
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text=f"said by {cell.source.strip()}")]
    return book, [f"slides/lab99_x.py:{i}" for i in range(1, len(book.cells) + 1)]


TYPE = [("source-sans-3", cut) for cut in ("400", "400-italic", "700")] + [
    ("source-code-pro", "400")
]

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


def test_a_figure_is_seen_before_what_is_said_about_it() -> None:
    book, at = notebook(
        """
# %% [markdown] slideshow={"slide_type": "slide"}
# ## A question
# What it needs.

# %%
figure

# %%
figure beside it

# %% [markdown]
# The finding.

# %% slideshow={"slide_type": "fragment"}
more

# %% slideshow={"slide_type": "slide"}
words alone
"""
    )
    for cell in book.cells:
        if cell.source.startswith("figure"):
            shown = nbformat.v4.new_output("display_data", data={"text/html": "<img>"})
            cell.outputs.insert(0, shown)
    first, second = slides.slides(book, at)
    said = [("<img" in part.html, part.step) for part in first.parts]
    assert said == [
        (False, 0),
        (True, 0),
        (False, 1),
        (True, 1),
        (False, 1),
        (False, 1),
        (False, 2),
    ]
    assert [part.step for part in second.parts] == [0]


def test_cells_become_slides_steps_and_notes() -> None:
    first, second = slides.slides(*notebook(DECK))
    assert "<h1" in first.heading and "A title with" in first.heading
    assert [part.step for part in first.parts] == [1, 1]
    assert "said by shown" in first.parts[1].html
    assert "for the speaker" in first.notes[0]
    assert "and this, computed" in first.notes[1], (
        "a cell without a type goes on where the last one was"
    )
    assert "source" in second.parts[0].html and "class='source'" in second.parts[0].html
    page = "".join(part.html for slide in (first, second) for part in slide.parts)
    assert "hidden" not in page
    assert "$x_1 &lt; 2$" in first.heading, "formulas are left to KaTeX, as they are"


def test_a_figure_drawn_narrow_stands_beside_the_rest() -> None:
    book, where = notebook("""
# %% slideshow={"slide_type": "slide"}
shows

# %% [markdown]
# of 90 % of 3 × 3, and <b style="width: 50%">70%</b>
""")
    heading = nbformat.v4.new_output(
        "display_data", data={"text/markdown": "## A heading\n\nand words"}
    )
    picture = {"text/html": "<img>", "text/plain": "a picture"}
    wide, narrow = (
        nbformat.v4.new_output("display_data", picture, metadata={"beside": b})
        for b in (False, True)
    )
    book.cells[0].outputs = [heading, wide, narrow]
    (slide,) = slides.slides(book, where)
    assert "A heading" in slide.heading and "and words" not in slide.heading
    assert [("words" in part.html, "img" in part.html, part.beside) for part in slide.parts] == [
        (True, False, False), (False, True, False), (False, True, True), (False, False, False)
    ]  # fmt: skip
    assert "of 90\u00a0% of 3\u00a0×\u00a03" in slide.parts[3].html, (
        "no line ends between a number and its unit"
    )
    assert '<b style="width: 50%">70\u00a0%</b>' in slide.parts[3].html


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
    with pytest.raises(AuthoringError, match="'lab77': choose among lab00"):
        slides.build(tmp_path, ["lab77"])


def test_where_there_is_no_deck_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match="there is no deck here"):
        slides.build(tmp_path)


def test_without_npm_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AuthoringError, match="apt install npm"):
        webpage.assets()


def test_a_page_has_all_inside(tmp_path: Path) -> None:
    """With stand-ins for what npm brings: no address is left in the page, and no script
    can end early.
    """
    for name, text in {
        "reveal.js/dist/reset.css": "a {}",
        "reveal.js/dist/reveal.css": "b {}",
        "reveal.js/dist/reveal.js": "const end = '</script>';",
        "reveal.js/dist/plugin/notes.js": "",
        "katex/dist/katex.min.css": "@font-face {src: url(fonts/K.woff2) format('woff2'),url(fonts/K.ttf) format('truetype')}",
        "katex/dist/katex.min.js": "",
        "katex/dist/contrib/auto-render.min.js": "",
        **{
            f"@fontsource/{package}/{cut}.css": "".join(
                f"@font-face {{src: url(./files/x-{part}-{cut}.woff2) format('woff2'), url(./files/x.woff) format('woff');}}"
                for part in ("latin", "cyrillic")
            )
            for package, cut in TYPE
        },
        **{f"@fontsource/{package}/files/x-latin-{cut}.woff2": "type" for package, cut in TYPE},
        "katex/dist/fonts/K.woff2": "letters",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    page = slides.render(slides.slides(*notebook(DECK)), "A & B", tmp_path)
    assert "<title>A &amp; B</title>" in page
    assert "fonts/" not in page and "font/woff2;base64,bGV0dGVycw==" in page
    assert page.count("</script>") == page.count("<script>")
    assert "files/" not in page and page.count("base64,dHlwZQ==") == len(TYPE), (
        "of the typeface, the letters in use"
    )
    assert page.count("<section ") == 2
    assert (
        '<div class="part fragment" data-fragment-index="1">' in page
        and '<aside class="notes">' in page
    )


def test_matplotlib_can_read_the_typeface(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    folder = modules / "@fontsource" / "source-sans-3" / "files"
    folder.mkdir(parents=True)
    font = TTFont(font_manager.findfont("DejaVu Sans"))  # in place of what npm brings
    font.flavor = "woff"
    for cut in ("400-normal", "400-italic", "700-normal"):
        font.save(folder / f"source-sans-3-latin-{cut}.woff")
    place = webpage.typeface(modules)
    assert webpage.typeface(modules) == place, "made once"
    made = sorted(place.glob("*.ttf"))
    assert len(made) == 3
    assert font_manager.get_font(made[0]).family_name == "DejaVu Sans"
