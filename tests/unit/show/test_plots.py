"""What the figures refuse, what they draw, and that their words can be told apart."""

import itertools
import math

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

from course_lib.experiments import lab02, lab05
from course_lib.intervals import interval
from course_lib.show import plots
from course_lib.show.labels import EndLabels, remaining_axis, spread
from course_lib.show.style import LOOKS, contrast, looks, readable
from unit.show.long import contest, lines

X = np.array([0.0, 0.5, 0.8, 0.9])
WORDS = {"xlabel": "sparsity", "ylabel": "accuracy (%)", "title": "Which is better?"}


def runs(end: float, seeds: int = 3) -> np.ndarray:
    rng = np.random.default_rng(round(end))
    return 98 - (98 - end) * (X / 0.9) ** 3 + rng.normal(0, 0.5, (seeds, len(X)))


def placed(fig: Figure) -> dict:
    """name -> bounding box in pixels, after drawing."""
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    renderer = canvas.get_renderer()
    return {
        text.get_text(): text.get_window_extent(renderer)
        for ax in fig.axes
        for artist in ax.artists
        if isinstance(artist, EndLabels)
        for text, *_ in artist.items
    }


def test_the_line_is_the_mean_and_the_band_the_t_interval():
    values = torch.tensor(runs(60, 4))  # tensors do as well as arrays
    fig = contest(X, {"random": values}, **WORDS)
    ax = fig.axes[0]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), values.numpy().mean(0))
    band = ax.collections[0].get_paths()[0].vertices
    for k, x in enumerate(X):
        low, high = stats.t.interval(0.95, 3, values[:, k].mean(), stats.sem(values[:, k]))
        column = band[np.isclose(band[:, 0], x), 1]
        assert math.isclose(column.min(), low) and math.isclose(column.max(), high)


def test_interval_leaves_missing_runs_out():
    values = np.array(
        [[1.0, 5.0, np.nan], [2.0, np.nan, np.nan], [4.0, 7.0, np.nan], [5.0, np.nan, 3.0]]
    )
    mean, half = interval(values)
    np.testing.assert_allclose(mean, [3, 6, 3])
    assert math.isclose(half[1], stats.t.ppf(0.975, 1) * math.sqrt(2) / math.sqrt(2))
    assert math.isnan(half[2])  # one run has no spread


def test_methods_keep_their_looks_whatever_else_is_in_the_figure():
    one = contest(X, {"magnitude": runs(90), "random": runs(60)}, **WORDS)
    other = contest(X, {"new": runs(70), "random": runs(60), "magnitude": runs(90)}, **WORDS)
    look = [
        {
            line.get_label(): (line.get_color(), line.get_marker(), line.get_linestyle())
            for line in fig.axes[0].lines
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
        ["ticket", "reinit", "random mask"],
        # shared looks and unknown names
        ["magnitude", "element", "iterative", "a", "b", "c", "d", "e", "f"],
    ],
)
def test_no_two_names_of_one_figure_look_alike(lab):
    chosen = looks(lab)
    assert list(chosen) == lab
    assert len({(look.colour, look.dash) for look in chosen.values()}) == len(lab)


def test_names_at_the_ends_never_overlap_and_stay_in_the_picture():
    results = {f"method {i}": runs(80 + i / 10) for i in range(9)} | {"random": runs(80)}
    fig = contest(X, results, dense=98, **WORDS)
    boxes = placed(fig)
    assert len(boxes) == 11
    for a, b in itertools.combinations(boxes.values(), 2):
        assert not a.overlaps(b)
    for box in boxes.values():
        assert (
            fig.bbox.x0 <= box.x0
            and box.x1 <= fig.bbox.x1 + 1
            and fig.bbox.y0 <= box.y0
            and box.y1 <= fig.bbox.y1
        )
        assert box.x0 > fig.axes[0].bbox.x1


def test_names_follow_when_the_limits_change_after():
    fig = contest(X, {"magnitude": runs(90), "random": runs(60)}, **WORDS)
    before = placed(fig)["random"].y0
    fig.axes[0].set_ylim(-100, 100)
    assert placed(fig)["random"].y0 > before + 50


def test_names_can_be_read_on_white():
    for look in LOOKS.values():
        assert contrast(readable(look.colour)) >= 4.5


def test_the_dense_model_is_a_black_line_with_its_interval():
    fig = contest(X, {"random": runs(60)}, dense=[98.0, 97.0, 99.0], **WORDS)
    assert [line.get_color() for line in fig.axes[0].lines if set(line.get_ydata()) == {98.0}] == [
        "#000000"
    ]
    assert "dense" in placed(fig)


def test_the_papers_points_are_marked_and_can_be_told_apart():
    paper = {"Han et al. 2015": (0.85, 90.0), "a table": ([0.5, 0.8], [95.0, 93.0])}
    fig = contest(X, {"magnitude": runs(90), "random": runs(60)}, paper=paper, **WORDS)
    stars = [line for line in fig.axes[0].lines if line.get_marker() == "*"]
    assert [len(line.get_xdata()) for line in stars] == [1, 2]
    assert len({star.get_markerfacecolor() for star in stars}) == 2
    assert [text.get_text() for text in fig.axes[0].get_legend().get_texts()] == list(paper)


def test_a_percentage_stays_between_0_and_100():
    wild = np.array([[0.0] * 4, [100.0] * 4, [100.0] * 4])
    low, high = contest(X, {"random": wild}, **WORDS).axes[0].get_ylim()
    assert low >= -2 and high <= 102


def test_it_draws_into_given_axes():
    fig = Figure(layout="constrained")
    left, right = fig.subplots(1, 2)
    assert contest(X, {"random": runs(60)}, ax=right, **WORDS) is fig
    assert not left.lines and right.lines


# Axes and labels


def test_sparsity_reads_in_per_cent():
    fig = contest(X, {"random": runs(60)}, xaxis="sparsity", **WORDS)
    fig.draw_without_rendering()
    assert "80 %" in [tick.get_text() for tick in fig.axes[0].get_xticklabels()]


def test_weights_remaining_run_from_all_to_few_on_a_log_scale():
    left = 0.8 ** np.arange(16)
    fig = contest(left, {"random": np.ones((3, 16))}, xaxis="remaining", **WORDS)
    fig.draw_without_rendering()
    ax = fig.axes[0]
    start, end = ax.get_xlim()
    assert ax.get_xscale() == "log" and start > 1 and end < left[-1]
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks[0] == "100" and "64" in ticks and len(ticks) <= 14
    (end_of_line,) = [
        end for artist in ax.artists if isinstance(artist, EndLabels) for _, end, _ in artist.items
    ]
    assert end_of_line[0] == left[-1]  # the end on the right of the page


def test_nothing_left_has_no_place_on_a_log_scale():
    ax = Figure().add_subplot()
    with pytest.raises(ValueError, match=r"fractions in \(0, 1\]"):
        remaining_axis(ax, [1, 0.5, 0])
    with pytest.raises(ValueError, match=r"fractions in \(0, 1\]"):
        remaining_axis(ax, [100, 50])


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


def test_spread_moves_no_label_that_is_free():
    assert spread([10, 100, 50], [10] * 3, 0, 200) == pytest.approx([10, 100, 50])
    # both give way, by the same
    assert spread([50, 50], [10] * 2, 0, 200) == pytest.approx([45, 55])
    assert spread([50, 50], [30, 10], 0, 200) == pytest.approx([40, 60])  # half of each apart
    assert spread([0, 0], [10] * 2, 0, 200) == pytest.approx([5, 15])  # pushed back inside
    even = spread([5, 5, 5, 5], [10] * 4, 0, 20)  # no room for four
    assert np.diff(even) == pytest.approx([10 / 3] * 3)
    assert spread([], [], 0, 200) == []
    assert spread([5], [30], 0, 20) == [5], "a label higher than its room"


def test_a_long_title_is_broken_into_lines():
    fig = lines(X, {"a": X}, xlabel="x", ylabel="y", title="a word " * 15)
    fig.draw_without_rendering()
    assert "\n" in fig.axes[0].get_title(loc="left")
    assert fig.get_tightbbox().x1 <= fig.get_size_inches()[0]


def test_histograms_share_their_axes_and_count_zeros_in_words():
    before = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    after = before * (before.abs() > 1)
    fig = plots.histogram_before_after(
        before.bfloat16(), after, title="t", labels=("trained", "pruned")
    )
    upper, lower = fig.axes
    assert upper.get_xlim() == lower.get_xlim() and upper.get_ylim() == lower.get_ylim()
    assert upper.texts[0].get_text() == "trained"
    zeros = 100 * float((after == 0).float().mean())
    assert lower.texts[0].get_text() == f"pruned\n{zeros:.3g} % are exactly 0"
    assert sum(bar.get_height() for bar in lower.patches) == int((after != 0).sum())
    plots.histogram_before_after([1.0, np.nan], [0.0, 0.0], title="all pruned")
    with pytest.raises(ValueError, match="at least one finite weight"):
        plots.histogram_before_after([np.nan], [1.0], title="t")


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


def test_the_grid_refuses_what_is_no_mask():
    with pytest.raises(ValueError, match="boolean, True = kept"):
        plots.grid({"w": torch.ones(2, 2)}, title="t")
    with pytest.raises(ValueError, match="no masks"):
        plots.grid({}, title="t")
    with pytest.raises(ValueError, match="empty"):
        plots.grid({"w": torch.ones(0, 2, dtype=torch.bool)}, title="t")


def test_the_heat_map_writes_each_number_so_that_it_can_be_read():
    table = np.array([[-0.04, 2.0, np.nan], [-3.0, 0.5, 1.0]])
    wide = pd.DataFrame(table, ["a", "b"], [1, 2, 3])
    fig = plots.heat_map(wide, xlabel="x", ylabel="y", title="t", centre=0, fmt="{:+.1f}")
    ax = fig.axes[0]
    # not "-0.0"
    assert [text.get_text() for text in ax.texts] == ["+0.0", "+2.0", "-3.0", "+0.5", "+1.0"]
    image = ax.images[0]
    assert image.norm.vmin == -3 and image.norm.vmax == 3
    for text in ax.texts:
        x, y = text.get_position()
        assert contrast(text.get_color(), image.cmap(image.norm(table[y, x]))[:3]) >= 3


def test_no_figure_is_known_to_pyplot_and_no_setting_changes():
    import matplotlib.pyplot as plt

    known, settings_ = plt.get_fignums(), dict(matplotlib.rcParams)
    fig = contest(X, {"random": runs(60)}, **WORDS)
    plots.grid({"m": np.ones((2, 2), bool)}, title="t")
    fig.draw_without_rendering()
    assert plt.get_fignums() == known
    assert dict(matplotlib.rcParams) == settings_
