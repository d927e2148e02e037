"""Figures of long tables: what they draw, what they refuse, what they say; and that their
words can be told apart.
"""

import itertools

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from course_lib.experiments import lab02, lab05
from course_lib.show import plots
from course_lib.show.labels import EndLabels, spread
from course_lib.show.output import alt_of
from course_lib.show.style import GREY, LOOKS, contrast, looks, readable
from unit.show.long import contest, lines, three_methods

SHARES = (0.5, 0.9)
X = np.array([0.0, 0.5, 0.8, 0.9])
WORDS = {"xlabel": "sparsity", "ylabel": "accuracy (%)", "title": "Which is better?"}
CURVES = {"x": "sparsity", "y": "accuracy", "title": "Which order?"}
HALF = 4.302652729911275 / np.sqrt(3)  # of the 95 % t-interval of three seeds, 1 apart


@pytest.fixture
def results() -> pd.DataFrame:
    return three_methods()


@pytest.fixture
def on_a_slide(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("COURSE_SLIDES", str(tmp_path))


def runs(end: float) -> np.ndarray:
    rng = np.random.default_rng(round(end))
    return 98 - (98 - end) * (X / 0.9) ** 3 + rng.normal(0, 0.5, (3, len(X)))


def line(axes, name):
    (found,) = [drawn for drawn in axes.lines if drawn.get_label() == name]
    return found


def end_names(fig: Figure) -> list:
    """(text, height of the line's end, colour) of each name beside the lines."""
    artists = [artist for ax in fig.axes for artist in ax.artists]
    return [item for artist in artists if isinstance(artist, EndLabels) for item in artist.items]


def placed(fig: Figure) -> dict:
    """name -> bounding box in pixels, after drawing."""
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    renderer = canvas.get_renderer()
    return {text.get_text(): text.get_window_extent(renderer) for text, *_ in end_names(fig)}


# ------------------------------------------------------------------------------- curves
def test_a_line_is_the_mean_over_seeds_of_the_mean_over_draws_and_each_seed_is_a_dot(results):
    (axes,) = plots.curves(results, **CURVES).axes
    magnitude, random = line(axes, "magnitude"), line(axes, "random")
    assert magnitude.get_xdata().tolist() == list(SHARES)
    assert np.allclose(magnitude.get_ydata(), [91 - 2.5, 91 - 4.5])
    assert np.allclose(random.get_ydata(), [91.5 - 20, 91.5 - 36])
    assert not axes.collections, "no band: accuracies are bounded"
    dots = [drawn for drawn in axes.lines if drawn.get_linestyle() == "None"]
    assert [len(drawn.get_xdata()) for drawn in dots] == [6, 6, 6], "seeds, and not draws"
    axes.figure.canvas.draw()
    first = [drawn.get_transform().transform((0.5, 90))[0] for drawn in dots]
    assert np.allclose(np.diff(first), 3 * axes.figure.dpi / 72), "moved apart"


def test_many_places_have_a_thin_line_per_seed():
    rng = np.random.default_rng(0)
    runs = {"random": 95 + rng.normal(0, 1, (3, 30)), "magnitude": 97 + rng.normal(0, 1, (3, 30))}
    (axes,) = contest(np.arange(30.0), runs, **WORDS).axes
    assert sum(drawn.get_linewidth() < 1 for drawn in axes.lines) == 6


def test_only_a_difference_has_an_interval(results):
    (axes,) = plots.curves(results, **CURVES, difference=True, control=None).axes
    low, high = axes.collections[0].get_segments()[0]
    assert np.isclose(high[1] - low[1], 2 * HALF), "an interval counts seeds and not draws"
    (axes,) = plots.bars(results.dropna(), x="method", y="accuracy", title="t").axes
    assert not axes.collections


def test_where_x_is_measured_too_a_setting_joins_the_points(results):
    look = {"x": "ms", "y": "accuracy", "along": "sparsity", "title": "What does speed cost?"}
    (axes,) = plots.curves(results.dropna(), **look).axes
    assert np.allclose(line(axes, "magnitude").get_xdata(), [7.5, 5.5])
    assert np.allclose(line(axes, "magnitude").get_ydata(), [88.5, 86.5])


def test_the_guess_is_a_star_and_none_where_nothing_was_written(results):
    for guess, place in (
        ((0.7, 90), (0.7, 90)),
        ((None, 90), (0.02, 90)),
        ((0.7, None), (0.7, 0.03)),
    ):
        (axes,) = plots.curves(results, **CURVES, guess=guess).axes
        (star,) = [drawn for drawn in axes.lines if drawn.get_marker() == "*"]
        assert (star.get_xdata()[0], star.get_ydata()[0]) == place
    (axes,) = plots.curves(results, **CURVES, guess=(0.7, ...)).axes
    assert not any(drawn.get_marker() == "*" for drawn in axes.lines)
    bars = {"x": "method", "y": "accuracy", "title": "t"}
    (axes,) = plots.bars(results.dropna(), **bars, guess=("Fisher", 90)).axes
    (star,) = [drawn for drawn in axes.lines if drawn.get_marker() == "*"]
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (1, 90)
    assert [text.get_text() for text in axes.get_legend().texts] == ["your guess"]


def test_the_dense_model_and_the_papers_points(results):
    paper = {"Han et al. 2015": (0.85, 90.0), "a table": ([0.5, 0.8], [95.0, 93.0])}
    fig = plots.curves(results, **CURVES, paper=paper)
    (axes,) = fig.axes
    assert "#000000" in [
        drawn.get_color() for drawn in axes.lines if set(drawn.get_ydata()) == {96}
    ]
    assert "dense" in placed(fig)
    points = [drawn for drawn in axes.lines if drawn.get_label() in paper]
    assert [len(point.get_xdata()) for point in points] == [1, 2]
    assert len({point.get_markerfacecolor() for point in points}) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(paper)


def test_marks_are_a_second_column_beside_the_lines():
    table = pd.DataFrame(
        {"p": [0.0, 0.5, 0.9], "k": "k = 2", "formula": [1, 0.6, 0.3], "counted": [1, np.nan, 0.4]}
    )
    fig = plots.curves(
        table, x="p", y="formula", marks="counted", by="k", control=None, title="Is it right?"
    )
    (axes,) = fig.axes
    assert line(axes, "k = 2").get_ydata().tolist() == [1, 0.6, 0.3]
    (marks,) = [drawn for drawn in axes.lines if drawn.get_linestyle() == "None"]
    assert marks.get_xdata().tolist() == [0, 0.9] and marks.get_ydata().tolist() == [1, 0.4]
    assert [text.get_text() for text in axes.get_legend().texts] == ["formula", "counted"]


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_panels_share_limits_that_hold_all_of_them(results, order):
    results = results.dropna()
    parts = {"A": results.assign(part="A"), "B": results.assign(part="B")}
    parts["B"]["accuracy"] /= 4
    both = pd.concat([parts[name] for name in order])
    figure = plots.curves(both, **CURVES, panels="part")
    left, right = figure.axes
    low, high = left.get_ylim()
    assert right.get_ylim() == (low, high) and low < both.accuracy.min() and high > 90
    assert left.get_title(loc="left") == order[0] and left.get_ylabel() and not right.get_ylabel()
    assert len(end_names(figure)) == 3, "lines are named once"
    assert "A, magnitude: 88.5 at 0.5" in alt_of(figure)
    assert "B, Fisher: 22.2 at 0.5" in alt_of(figure)


def test_it_draws_into_given_axes(results):
    fig = Figure(layout="constrained")
    left, right = fig.subplots(1, 2)
    assert plots.curves(results, **CURVES, ax=right) is fig
    assert not left.lines and right.lines


# ------------------------------------------------------------------------- axes, ticks
@pytest.mark.parametrize("ylabel", ["accuracy (%)", "BLEU"])
def test_no_axis_of_accuracy_or_bleu_goes_beyond_100(results, ylabel):
    (axes,) = plots.curves(results, **CURVES, ylabel=ylabel).axes
    assert axes.get_ylim()[1] <= 102
    off = pd.DataFrame({"x": [0, 1], "method": "magnitude", "off": [0.0, -8.0]})
    (axes,) = plots.curves(off, x="x", y="off", control=None, ylabel="off (%)", title="t").axes
    assert axes.get_ylim()[0] < -8, "differences may be negative"


def test_a_tick_says_where_it_stands_and_the_unit_stands_once(results):
    near = results.assign(sparsity=results["sparsity"] / 4 + 0.4)
    (axes,) = plots.curves(near, **CURVES, xaxis="sparsity").axes
    assert [axes.xaxis.get_major_formatter()(x, 0) for x in (0.425, 0.45)] == ["42.5", "45"]
    assert axes.get_xlabel() == "weights pruned (%)"


def test_ticks_are_measured_values_powers_of_two_or_whole_numbers():
    words = {"xlabel": "x", "ylabel": "y", "title": "t"}
    (axes,) = lines([20.0, 36], {"a": [1, 2]}, **words, xaxis="log").axes
    assert axes.get_xscale() == "log" and not len(axes.get_xticks(minor=True))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["20", "36"]
    (axes,) = lines([1, 2, 4, 8], {"a": [1, 2, 4, 80]}, **words, xaxis="log2", log=True).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4", "8"]
    assert axes.yaxis.get_major_formatter()(10) == "10"
    assert {1, 2, 5, 10, 20, 50} <= set(axes.get_yticks().tolist())
    (axes,) = lines([0, 1, 2], {"a": [0.1, 0.2, 0.3]}, **words).axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_weights_remaining_run_from_all_to_few_on_a_log_scale():
    left = 0.8 ** np.arange(16)
    fig = contest(left, {"random": np.ones((3, 16))}, xaxis="remaining", **WORDS)
    fig.draw_without_rendering()
    ax = fig.axes[0]
    start, end = ax.get_xlim()
    assert ax.get_xscale() == "log" and start > 1 and end < left[-1]
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks[0] == "100" and "64" in ticks and len(ticks) <= 14
    falling = pd.DataFrame({"x": left, "y": left, "method": "magnitude"})
    fig = plots.curves(falling, x="x", y="y", control=None, title="t", xaxis="remaining")
    assert end_names(fig)[0][1] == left[-1], "named at the end on the right of the page"


# ------------------------------------------------------------------------ looks, names
def test_methods_keep_their_looks_whatever_else_is_in_the_figure():
    one = contest(X, {"magnitude": runs(90), "random": runs(60)}, **WORDS)
    other = contest(X, {"new": runs(70), "random": runs(60), "magnitude": runs(90)}, **WORDS)
    look = [
        {
            line.get_label(): (line.get_color(), line.get_marker(), line.get_linestyle())
            for line in fig.axes[0].lines
            if not line.get_label().startswith("_")
        }
        for fig in (one, other)
    ]
    assert look[0]["magnitude"] == look[1]["magnitude"] == (LOOKS["magnitude"].colour, "o", "-")
    assert look[0]["random"] == look[1]["random"] == (LOOKS["random"].colour, "x", "--")
    assert len(set(look[1].values())) == 3


@pytest.mark.parametrize(
    "lab",
    [
        ["dense", "bitmap", "RLE", "COO", "CSR"],
        ["dense", "random", "one-shot", "fine-tuned", "iterative", "recalibrated", "global"],
        ["dense", "random", "element", "row", "kernel", "filter"],
        ["dense", *lab02.CRITERIA],
        ["dense", *lab05.ARMS],
        ["ticket", "reinit", "random mask", "random", "random channels"],
        # shared looks and unknown names
        ["magnitude", "element", "iterative", "a", "b", "c", "d", "e", "f"],
    ],
)
def test_no_two_names_of_one_figure_look_alike(lab):
    chosen = looks(lab)
    assert list(chosen) == lab
    assert len({(look.colour, look.dash) for look in chosen.values()}) == len(lab)
    assert all(look.colour == GREY for name, look in chosen.items() if name.startswith("random"))
    assert all(contrast(readable(look.colour)) >= 4.5 for look in chosen.values())


def test_names_at_the_ends_never_overlap_stay_in_the_picture_and_follow_the_limits():
    results = {f"method {i}": runs(80 + i / 10) for i in range(9)} | {"random": runs(80)}
    fig = contest(X, results, dense=98, **WORDS)
    boxes = placed(fig)
    assert len(boxes) == 11
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes.values(), 2))
    for box in boxes.values():
        assert fig.axes[0].bbox.x1 < box.x0 and box.x1 <= fig.bbox.x1 + 1
        assert fig.bbox.y0 <= box.y0 and box.y1 <= fig.bbox.y1
    fig.axes[0].set_ylim(-100, 100)
    assert placed(fig)["random"].y0 > boxes["random"].y0 + 50


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(-50, 250), st.floats(1, 15)), max_size=12))
def test_spread_labels_are_apart_in_order_and_inside(labels):
    wanted, heights = [w for w, _ in labels], [h for _, h in labels]
    centres = spread(wanted, heights, 0, 200)
    assert len(centres) == len(wanted)
    placed = sorted(zip(centres, heights, wanted, strict=True))
    for (a, height_a, want_a), (b, height_b, want_b) in itertools.pairwise(placed):
        assert b - a >= (height_a + height_b) / 2 - 1e-6
        assert want_a <= want_b  # no two leaders cross
    assert all(h / 2 - 1e-6 <= centre <= 200 - h / 2 + 1e-6 for centre, h, _ in placed)


@pytest.mark.parametrize(
    ("wanted", "heights", "high", "centres"),
    [
        ([10, 100, 50], [10] * 3, 200, [10, 100, 50]),  # free: no label moves
        ([50, 50], [10] * 2, 200, [45, 55]),  # both give way, by the same
        ([50, 50], [30, 10], 200, [40, 60]),  # half of each apart
        ([0, 0], [10] * 2, 200, [5, 15]),  # pushed back inside
        ([5, 5, 5, 5], [10] * 4, 20, [5, 5 + 10 / 3, 5 + 20 / 3, 15]),  # no room for four
        ([5], [30], 20, [5]),  # a label higher than its room
    ],
)
def test_spread_moves_labels_as_little_as_can_be(wanted, heights, high, centres):
    assert spread(wanted, heights, 0, high) == pytest.approx(centres)


def test_a_long_title_is_broken_into_lines():
    fig = lines(X, {"a": X}, xlabel="x", ylabel="y", title="a word " * 15)
    fig.draw_without_rendering()
    assert "\n" in fig.axes[0].get_title(loc="left")
    assert fig.get_tightbbox().x1 <= fig.get_size_inches()[0]


# -------------------------------------------------------------------------- other kinds
def test_bars_have_their_number_and_their_seeds(results):
    at_90 = results.query("sparsity == 0.9").assign(how="once")
    both = pd.concat([at_90, at_90.assign(how="in rounds", accuracy=at_90.accuracy - 3)])
    (axes,) = plots.bars(both, x="method", y="accuracy", by="how", title="t", fmt="{:.1f}").axes
    written = [text.get_text() for text in axes.texts]
    assert written == ["86.5", "87.4", "55.5", "83.5", "84.4", "52.5"]
    dots = [drawn.get_ydata() for drawn in axes.lines]
    assert np.allclose(dots[0], [85.5, 86.5, 87.5]) and len(dots) == 6
    negative = pd.DataFrame({"x": ["a", "b"], "y": [-4.3, -0.04]})
    (axes,) = plots.bars(negative, x="x", y="y", title="t", fmt="{:.1f}").axes
    assert [text.get_text() for text in axes.texts] == ["−4.3", "0.0"]


def test_random_bars_are_grey_and_dense_and_the_constant_answer_are_lines(results):
    table = results.assign(sparsity=results["sparsity"].fillna(0))
    (axes,) = plots.bars(table, x="method", y="accuracy", title="t", constant=50).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["magnitude", "Fisher", "random"]
    colours = [to_hex(bar.get_facecolor()).upper() for bar in axes.patches]
    assert colours[2] == GREY and colours[0] != GREY
    levels = {
        drawn.get_ydata()[0]: drawn.get_color()
        for drawn in axes.lines
        if len(drawn.get_ydata()) == 2
    }
    assert levels == {96: "#000000", 50: GREY}
    both = table[table.method != "magnitude"].assign(task="one")
    (axes,) = plots.bars(both, x="task", y="accuracy", by="method", title="t").axes
    assert len(axes.patches) == 2 and len(axes.collections) == 1, "dense is a line there, too"


def test_each_panel_of_a_scatter_has_its_own_rank_correlation():
    points = pd.DataFrame({"panel": 3 * ["up"] + 3 * ["down"], "x": range(6), "y": [1, 2, 3] * 2})
    points.loc[3:, "y"] = [3, 2, 1]
    text = alt_of(plots.scatter(points, x="x", y="y", panels="panel", title="Which way?"))
    assert "rank correlation 1.00 (up)" in text and "rank correlation -1.00 (down)" in text
    figure = plots.scatter(points[1:5], x="x", y="y", title="t", diagonal=True)
    assert "4 points" in alt_of(figure) and len(figure.axes[0].lines) == 1


def test_histograms_share_their_axes_and_count_zeros_in_words():
    before = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    after = before * (before.abs() > 1)
    fig = plots.histograms({"trained": before.bfloat16(), "pruned": after}, title="t")
    upper, lower = fig.axes
    assert upper.get_xlim() == lower.get_xlim() and upper.get_ylim() == lower.get_ylim()
    zeros = 100 * float((after == 0).float().mean())
    assert upper.texts[0].get_text() == "trained"
    assert lower.texts[0].get_text() == f"pruned\n{zeros:.3g} % are exactly 0"
    assert sum(bar.get_height() for bar in lower.patches) == int((after != 0).sum())


def test_the_grid_lays_kernels_out_by_filter_and_channel():
    mask = torch.zeros(2, 3, 2, 2, dtype=torch.bool)
    mask[1, 2, 0, 1] = True  # filter 1, channel 2, upper right
    fig = plots.grid({"conv": mask}, title="t")
    picture = fig.axes[0].images[0].get_array()
    assert picture.shape == (4, 6)
    assert list(zip(*np.nonzero(picture), strict=True)) == [(2, 5)]
    assert fig.axes[0].get_title(loc="left") == "conv\n95.8 % pruned"


@pytest.mark.parametrize(
    "shape", [(300, 784), (7,), (), (1, 1), (3, 5, 2), (500, 3), (10, 3, 3, 3)]
)
def test_the_grid_keeps_the_density_of_masks_of_any_size(shape):
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(shape, generator=generator) > 0.3
    fig = plots.grid({"m": mask}, title="t")
    picture = fig.axes[0].images[0].get_array()
    assert max(picture.shape) <= 160
    assert abs(float(picture.mean()) - float(mask.float().mean())) < 0.01


def test_a_wide_table_has_its_numbers_where_they_can_be_read(results):
    table = np.array([[-0.04, 2.0, np.nan], [-3.0, 0.5, 1.0]])
    ax = plots.grid(pd.DataFrame(table, ["a", "b"], [1, 2, 3]), title="t", centre=0).axes[0]
    assert [text.get_text() for text in ax.texts] == ["0.0", "2.0", "−3.0", "0.5", "1.0"]
    image = ax.images[0]
    assert image.norm.vmin == -3 and image.norm.vmax == 3
    for text in ax.texts:
        x, y = text.get_position()
        assert contrast(text.get_color(), image.cmap(image.norm(table[y, x]))[:3]) >= 3
    wide = results.dropna().pivot_table(index="method", columns="sparsity", values="accuracy")
    figure = plots.grid(wide, title="t", colour_label="accuracy (%)")
    assert "random: 50 % 71.5, 90 % 55.5" in alt_of(figure)
    long = pd.DataFrame([range(18)], columns=[f"yesterday {i}" for i in range(18)], index=["a"])
    assert plots.grid(long, title="t").axes[0].get_xticklabels()[0].get_rotation() == 65


def test_maps_of_one_figure_share_a_scale():
    fig = plots.grid({"a": np.eye(3), "b": 5 * np.eye(2)}, title="t")
    assert {image.norm.vmax for ax in fig.axes[:2] for image in ax.images} == {5}


# ------------------------------------------------------------------------ all figures
def test_the_alternative_is_title_and_table(results):
    text = alt_of(plots.curves(results, **CURVES))
    assert text.startswith("Which order. validation accuracy (%) by weights pruned")
    assert "magnitude: 88.5 at 0.5, 86.5 at 0.9." in text and "dense: 96." in text
    assert "means of 3 seeds" in text
    figure = plots.bars(results.query("sparsity == 0.9"), x="method", y="accuracy", title="At 90 %")
    assert "55.5 at random" in alt_of(figure)


def test_titles_and_names_are_set_as_people_write_them(results):
    named = results.replace({"method": {"Fisher": "I_h, iterative"}})
    figure = plots.curves(named, **CURVES | {"title": "I_h at 70% minus -1, $2^{-3}$"})
    assert "$I_h$, iterative" in [text.get_text() for text, *_ in end_names(figure)]
    assert figure.axes[0].get_title("left") == "I_h at 70 % minus −1, $2^{-3}$"


@pytest.mark.usefixtures("on_a_slide")
def test_on_a_slide_the_name_of_the_vertical_axis_stands_above_it(results):
    for draw, x in ((plots.curves, "sparsity"), (plots.bars, "method")):
        (axes,) = draw(results, x=x, y="accuracy", title="Which order?").axes
        assert (axes.get_ylabel(), axes.get_title("left")) == ("", "validation accuracy (%)")
    (axes,) = plots.bars(results.dropna(), x="sparsity", y="accuracy", by="method", title="t").axes
    assert axes.get_legend().get_bbox_to_anchor().y0 >= axes.bbox.y1 - 1


def test_no_figure_is_known_to_pyplot_and_no_setting_changes(results):
    import matplotlib.pyplot as plt

    known, settings_ = plt.get_fignums(), dict(matplotlib.rcParams)
    fig = plots.curves(results, **CURVES)
    plots.grid({"m": np.ones((2, 2), bool)}, title="t")
    fig.draw_without_rendering()
    assert plt.get_fignums() == known
    assert dict(matplotlib.rcParams) == settings_


ALL = three_methods()
REFUSED = [
    ("random", lambda: plots.curves(ALL.query("method != 'random'"), **CURVES)),
    ("'magnitude'", lambda: plots.curves(ALL.query("seed < 2"), **CURVES)),
    ("'loss'", lambda: plots.curves(ALL, x="method", y="loss", title="t")),
    ("'loss'", lambda: plots.bars(ALL, x="method", y="loss", title="t")),
    ("'loss'", lambda: plots.scatter(ALL, x="method", y="loss", title="t")),
    ("'loss'", lambda: plots.curves(ALL, **CURVES, marks="loss", control=None)),
    ("by", lambda: plots.bars(ALL, x="method", y="ms", by="accuracy", title="t")),
    ("guess", lambda: plots.curves(ALL, **CURVES, guess=(0.5, "more"))),
    ("guess", lambda: plots.bars(ALL, x="method", y="ms", title="t", guess=("Taylor", 5))),
    ("remaining", lambda: plots.curves(ALL.assign(sparsity=50), **CURVES, xaxis="remaining")),
    ("pictures", lambda: plots.grid({"w": torch.ones(0, 2, dtype=torch.bool)}, title="t")),
    ("pictures", lambda: plots.grid({}, title="t")),
]


@pytest.mark.parametrize(("at_fault", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(at_fault, call):
    with pytest.raises(ValueError, match=at_fault):
        call()


def test_lines_that_do_not_compete_need_no_baseline(results):
    alone = results.query("seed < 2 and method == 'magnitude'")
    assert plots.curves(alone, **CURVES, control=None)
