"""No figure without words: where the text alternative must be, and what happens where
there is none.
"""

import base64
import io
import re

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from course_lib.show import output, plots
from course_lib.show.output import alt, save, show
from course_lib.show.style import SLIDE_INCH, use_style
from unit.show.long import contest, lines

SENTENCE = 'Accuracy falls from 98 % to 40 % <after> "0.9" & stays there.'


def figure() -> Figure:
    fig = Figure(figsize=(8, 4.6))
    fig.add_subplot().plot([1, 3, 2])
    return fig


def test_show_puts_the_text_into_every_form_of_the_output(shown):
    assert show(figure(), alt=SENTENCE) is None
    ((data, metadata),) = shown
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/plain"] == SENTENCE
    assert metadata["image/png"]["alt"] == SENTENCE
    (tag,) = re.findall(r"<img [^>]*>", data["text/html"])
    (attribute,) = re.findall(r'alt="([^"]*)"', tag)
    assert (
        attribute
        == "Accuracy falls from 98 % to 40 % &lt;after&gt; &quot;0.9&quot; &amp; stays there."
    )
    assert data["image/png"] in tag


def test_the_picture_is_800_pixels_wide_on_the_page_and_sharper_than_that(shown):
    show(figure(), alt=SENTENCE)
    data, metadata = shown[0]
    assert (metadata["image/png"]["width"], metadata["image/png"]["height"]) == (800, 460)
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.size == (1200, 690)
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)


def test_bands_keep_their_colours_in_a_picture_of_256():
    rng = np.random.default_rng(0)
    names = ("signed forecast", "OBD", "Fisher", "Taylor", "input-aware", "magnitude", "random")
    fall = np.array([0, 2, 15, 30, 60])
    methods = {
        name: np.clip(95 - fall * (1 + 0.3 * i) + rng.normal(0, 8, (3, 5)), 0, 100)
        for i, name in enumerate(names)
    }
    share = (0.3, 0.5, 0.7, 0.8, 0.9)
    words = {"xlabel": "removed (%)", "ylabel": "accuracy (%)", "title": "t", "xaxis": "sparsity"}
    fig = contest(share, methods, dense=[96, 95, 97], **words)
    whole = io.BytesIO()
    fig.savefig(whole, format="png", dpi=150, facecolor="white")
    few = io.BytesIO(output._reduce_colours(whole))
    pixels = [np.asarray(Image.open(file).convert("RGB")).astype(int) for file in (whole, few)]
    off = np.abs(pixels[0] - pixels[1]).max(-1)  # a band that was grey came out green, by 8
    assert (off > 6).mean() < 0.05


@pytest.mark.long
def test_even_a_noisy_picture_stays_below_300_kb():
    fig = Figure(figsize=(8, 8))
    fig.add_axes((0, 0, 1, 1)).imshow(
        np.random.default_rng(0).random((900, 900, 3)), interpolation="nearest"
    )
    data = output.png(fig)
    assert len(data) <= 300_000
    assert data.startswith(b"\x89PNG")


@pytest.mark.parametrize("missing", [None, "", "  ", "figure", "a plot", 3])
def test_without_a_sentence_the_error_says_what_to_write(missing, shown, tmp_path):
    with pytest.raises(ValueError, match="alt="):
        show(figure(), alt=missing)
    with pytest.raises(ValueError, match="alt="):
        save(figure(), tmp_path / "f.png", missing)
    if missing is not None:
        with pytest.raises(ValueError, match="text alternative"):
            alt(figure(), missing)
    assert not shown and not list(tmp_path.iterdir())


def test_alt_given_before_is_used_and_alt_given_last_wins(shown):
    fig = figure()
    assert alt(fig, "A line that\n   rises and falls.") is fig
    show(fig)
    show(fig, alt="Something else is said.")
    assert [data["text/plain"] for data, _ in shown] == [
        "A line that rises and falls.",
        "Something else is said.",
    ]


def test_pyplot_forgets_a_figure_that_was_shown_or_saved(tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    show(plt.subplots()[0], alt=SENTENCE)
    save(plt.subplots()[0], tmp_path / "f.png", SENTENCE)
    assert plt.get_fignums() == before


def test_in_plain_python_the_words_are_printed(capsys):
    show(figure(), alt=SENTENCE)
    assert capsys.readouterr().out == SENTENCE + "\n"


@pytest.mark.long
def test_a_saved_figure_carries_its_description(tmp_path):
    words = "A line that rises and falls."
    path = save(figure(), str(tmp_path / "f.png"), words)
    assert path == tmp_path / "f.png"
    with Image.open(path) as image:
        assert image.info["Description"] == words
    first = path.read_bytes()
    assert save(figure(), path, words).read_bytes() == first  # the same figure is the same file
    vector = output.svg(figure(), words)
    assert words.encode() in vector and output.svg(figure(), words) == vector
    with pytest.raises(ValueError, match="path"):
        save(figure(), tmp_path / "f.jpg", SENTENCE)


def test_use_style_reaches_figures_of_ones_own():
    with matplotlib.rc_context():
        use_style()
        assert matplotlib.rcParams["axes.spines.right"] is False
        assert matplotlib.rcParams["font.size"] >= 11


def test_a_figure_of_ones_own_is_drawn_in_ones_own_style():
    with matplotlib.rc_context({"xtick.labelsize": 7, "figure.constrained_layout.use": False}):
        fig = figure()
        output.png(fig)
        assert fig.axes[0].get_xticklabels()[0].get_fontsize() == 7
        assert fig.get_layout_engine() is None


@pytest.fixture
def on_a_slide(monkeypatch, tmp_path):
    """Figures are drawn for a deck; its typeface is not there, so that matplotlib's own
    is taken.
    """
    monkeypatch.setenv("COURSE_SLIDES", str(tmp_path))


def a_line() -> Figure:
    return lines(range(9), {"a": range(9)}, xlabel="x", ylabel="a long name", title="A title")


@pytest.mark.usefixtures("on_a_slide")
def test_on_a_slide_a_figure_is_as_large_as_it_was_drawn_and_its_letters_as_large_as_the_text(
    shown,
):
    fig = a_line()
    show(fig, alt=SENTENCE, inches=(8, 3))
    show(a_line(), alt=SENTENCE, inches=(5, 4))
    (data, metadata), (_, narrow) = shown
    (width,) = re.findall(r'width="(\d+)"', data["text/html"])
    assert int(width) == 8 * SLIDE_INCH and metadata == {"beside": False}
    assert narrow == {"beside": True}, "it stands beside the text"
    letters = {text.get_fontsize() for text in fig.findobj(Text) if text.get_text()}
    assert min(letters) * SLIDE_INCH / 72 >= 720 / 22, "pt, at so many CSS pixels an inch"
    (axes,) = fig.axes
    assert axes.get_ylabel() == "" and axes.get_title(loc="left") == "a long name"


def test_elsewhere_a_figure_is_drawn_as_before(shown):
    fig = a_line()
    show(fig, alt=SENTENCE)
    assert fig.axes[0].get_ylabel() == "a long name" and "image/png" in shown[0][0]


@pytest.mark.usefixtures("on_a_slide")
def test_letters_that_the_last_row_cannot_read_are_refused_on_a_slide(shown):
    fig = a_line()
    fig.axes[0].text(3, 3, "a remark", fontsize=12)
    with pytest.raises(ValueError, match="'a remark'"):
        show(fig, alt=SENTENCE)
    with pytest.raises(ValueError, match="inches"):
        show(a_line(), alt=SENTENCE, inches=(9, 4))
    assert not shown


@pytest.mark.usefixtures("on_a_slide")
@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.bars(
            pd.DataFrame({"method": ["a", "a", "b", "b"], "x": ["x", "y"] * 2, "y": [1.0, 2, 3, 1]}),
            x="x", y="y", by="method", title="t",
        ),
        lambda: plots.heat_map(pd.DataFrame(np.eye(3)), xlabel="x", ylabel="y", title="t"),
        lambda: plots.histogram_before_after(np.arange(9.0), np.arange(5.0), title="t"),
        lambda: plots.grid({"mask": np.eye(4) > 0}, title="t"),
        lambda: contest(
            [0.5, 0.1], {"random": np.ones((3, 2)), "ticket": np.ones((3, 2))}, paper={"paper": (0.5, 1.0)},
            dense=1.0, xlabel="x", ylabel="y", title="t", xaxis="remaining",
        ),
    ],
)  # fmt: skip
def test_every_kind_of_figure_can_be_read_on_a_slide(draw, shown):
    show(draw(), alt=SENTENCE)
    assert len(shown) == 1
