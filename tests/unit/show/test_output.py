"""No figure without words: where the text alternative must be, and what happens where
there is none.
"""

import base64
import functools
import io
import re

import ipywidgets
import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from course_lib.show import output, plots
from course_lib.show.output import alt_of, save, show
from course_lib.show.style import SLIDE_INCH, use_style
from unit.show.long import contest, lines

SENTENCE = 'Does accuracy fall <after> "0.9" & stay there?'


def figure() -> Figure:
    fig = Figure(figsize=(8, 4.6))
    fig.add_subplot().plot([1, 3, 2])
    fig.suptitle(SENTENCE)
    return fig


def test_show_puts_the_text_into_every_form_of_the_output(shown):
    assert show(figure()) is None
    ((data, metadata),) = shown
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == alt_of(figure())
    (tag,) = re.findall(r"<img [^>]*>", data["text/html"])
    (attribute,) = re.findall(r'alt="([^"]*)"', tag)
    assert attribute.startswith("Does accuracy fall &lt;after&gt; &quot;0.9&quot; &amp; stay")
    assert data["image/png"] in tag


def test_the_picture_is_800_pixels_wide_on_the_page_and_sharper_than_that(shown):
    show(figure())
    data, metadata = shown[0]
    assert (metadata["image/png"]["width"], metadata["image/png"]["height"]) == (800, 460)
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.size == (1200, 690)
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)


def test_pale_lines_keep_their_colours_in_a_picture_of_256():
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
    off = np.abs(pixels[0] - pixels[1]).max(-1)  # what was grey came out green, by 8
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


def test_without_a_title_the_error_says_what_to_do(shown, tmp_path):
    untitled = Figure()
    untitled.add_subplot().plot([1, 2])
    for call in (lambda: show(untitled), lambda: save(untitled, tmp_path / "f.png")):
        with pytest.raises(ValueError, match="fig: its title"):
            call()
    assert not shown and not list(tmp_path.iterdir())


def test_of_a_figure_of_ones_own_all_that_is_written_is_the_alternative():
    fig = Figure()
    left, right = fig.subplots(1, 2)
    left.set(title="the gate", xlabel="score", xticks=[0, 1])
    right.plot([1, 2], label="soft")
    right.legend()
    right.annotate("90 %", (0, 1))
    assert alt_of(fig) == "the gate; score; 90 %; soft"
    fig.suptitle("Open or closed?")
    assert alt_of(fig).startswith("Open or closed?. the gate")


def test_pyplot_forgets_a_figure_that_was_shown_or_saved(tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    for keep in (show, lambda fig: save(fig, tmp_path / "f.png")):
        fig, ax = plt.subplots()
        ax.set_title("A title of four")
        keep(fig)
    assert plt.get_fignums() == before


def test_in_plain_python_the_words_are_printed(capsys):
    show(figure())
    assert capsys.readouterr().out == alt_of(figure()) + "\n"


@pytest.mark.long
def test_a_saved_figure_carries_its_description(tmp_path):
    path = save(figure(), str(tmp_path / "f.png"))
    assert path == tmp_path / "f.png"
    with Image.open(path) as image:
        assert image.info["Description"] == alt_of(figure())
    first = path.read_bytes()
    assert save(figure(), path).read_bytes() == first  # the same figure is the same file
    vector = output.svg(figure(), "some words")
    assert b"some words" in vector and output.svg(figure(), "some words") == vector
    with pytest.raises(ValueError, match="path"):
        save(figure(), tmp_path / "f.jpg")


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
    show(fig, inches=(8, 3))
    show(a_line(), inches=(5, 4))
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
    show(fig)
    assert fig.axes[0].get_ylabel() == "a long name" and "image/png" in shown[0][0]


@pytest.mark.usefixtures("on_a_slide")
def test_letters_that_the_last_row_cannot_read_are_refused_on_a_slide(shown):
    fig = a_line()
    fig.axes[0].text(3, 3, "a remark", fontsize=12)
    with pytest.raises(ValueError, match="'a remark'"):
        show(fig)
    with pytest.raises(ValueError, match="inches"):
        show(a_line(), inches=(9, 4))
    assert not shown


@pytest.mark.usefixtures("on_a_slide")
@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.bars(
            pd.DataFrame({"method": ["a", "a", "b", "b"], "x": ["x", "y"] * 2, "y": [1.0, 2, 3, 1]}),
            x="x", y="y", by="method", title="t",
        ),
        lambda: plots.grid(pd.DataFrame(np.eye(3)), xlabel="x", ylabel="y", title="t"),
        lambda: plots.histograms({"a": np.arange(9.0), "b": np.arange(5.0)}, title="t"),
        lambda: plots.grid({"mask": np.eye(4) > 0}, title="t"),
        lambda: contest(
            [0.5, 0.1], {"random": np.ones((3, 2)), "ticket": np.ones((3, 2))}, paper={"paper": (0.5, 1.0)},
            dense=1.0, xlabel="x", ylabel="y", title="t", xaxis="remaining",
        ),
    ],
)  # fmt: skip
def test_every_kind_of_figure_can_be_read_on_a_slide(draw, shown):
    show(draw())
    assert len(shown) == 1


# ------------------------------------------------------------------------------ explorers
def rising(height: int = 2, colour: str = "C0") -> Figure:
    if height > 8:
        raise ValueError("too high")
    fig = Figure()
    fig.add_subplot().plot([0, height], color=colour)
    fig.suptitle(f"How high is it? {height}")
    return fig


@pytest.mark.parametrize("draw", [rising, functools.partial(rising)], ids=["function", "partial"])
def test_an_explorer_has_its_controls_and_where_no_kernel_runs_its_first_figure(monkeypatch, draw):
    boxes, shown, make = [], [], ipywidgets.interactive
    monkeypatch.setattr(output, "display_bundle", lambda data, _: shown.append(data))
    monkeypatch.setattr(
        ipywidgets, "interactive", lambda *a, **k: boxes.append(make(*a, **k)) or boxes[-1]
    )
    output.explore(draw, height=(1, 9), colour=["C1", "C0"])
    ((box,), (data,)) = boxes, shown
    assert {"application/vnd.jupyter.widget-view+json", "image/png", "text/html"} <= set(data)
    assert "How high is it? 2" in data["text/html"]
    height, colour, *_ = box.children
    assert (height.value, height.min, height.max) == (2, 1, 9)
    assert isinstance(colour, ipywidgets.ToggleButtons), "arrow keys never reach a drop-down list"
    assert (colour.value, colour.options) == ("C0", ("C1", "C0"))
    height.value, colour.value = 5, "C1"
    assert box.result.get_suptitle() == "How high is it? 5"
    assert "course-explorer" in box._dom_classes


def test_what_the_first_figure_raises_is_the_callers(shown):
    def broken(height: int = 9) -> Figure:
        return rising(height)

    with pytest.raises(ValueError, match="too high"):
        output.explore(broken, height=(1, 9))
    assert not shown
