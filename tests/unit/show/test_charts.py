"""Figures and tables of long tables: what is drawn, what is refused, what is said."""

import numpy as np
import pandas as pd
import pytest

from course_lib.intervals import compare, differences
from course_lib.show import plots, tables
from course_lib.show.words import minus

SHARES = (0.5, 0.9)


@pytest.fixture
def results() -> pd.DataFrame:
    """Three seeds of three methods; random has two draws of each seed."""
    rows = [
        {
            "seed": seed,
            "method": method,
            "sparsity": share,
            "accuracy": 90 - cost * share + seed + draw,
            "ms": 10 - 5 * share,
        }
        for seed in range(3)
        for method, cost in (("magnitude", 5), ("Fisher", 4), ("random", 40))
        for share in SHARES
        for draw in range(2 if method == "random" else 1)
    ]
    dense = [
        {"seed": seed, "method": "dense", "sparsity": np.nan, "accuracy": 95.0 + seed}
        for seed in range(3)
    ]
    return pd.DataFrame(rows + dense)


def line(axes, name):
    (found,) = [drawn for drawn in axes.lines if drawn.get_label() == name]
    return found


def test_a_line_is_the_mean_over_seeds_of_the_mean_over_draws(results):
    (axes,) = plots.curves(results, x="sparsity", y="accuracy", title="Which order?").axes
    magnitude, random = line(axes, "magnitude"), line(axes, "random")
    assert magnitude.get_xdata().tolist() == list(SHARES)
    assert np.allclose(magnitude.get_ydata(), [91 - 2.5, 91 - 4.5])
    assert np.allclose(random.get_ydata(), [91.5 - 20, 91.5 - 36])
    assert random.get_linestyle() == "--", "the baseline looks the same in every figure"


def test_a_tick_says_where_it_stands(results):
    near = results.assign(sparsity=results["sparsity"] / 4 + 0.4)
    figure = plots.curves(near, x="sparsity", y="accuracy", title="?", xaxis="sparsity")
    (axes,) = figure.axes
    assert axes.xaxis.get_major_formatter()(0.425, 0) == "42.5 %"
    assert axes.xaxis.get_major_formatter()(0.45, 0) == "45 %"
    assert (
        plots.curves(
            near.rename(columns={"sparsity": "removed"}), x="removed", y="accuracy", title="?"
        )
        .axes[0]
        .get_xlabel()
        == "removed (%)"
    )


def test_a_band_counts_seeds_and_not_draws(results):
    (axes,) = plots.curves(results, x="sparsity", y="accuracy", title="Which order?").axes
    half = 4.302652729911275 / np.sqrt(3)  # of the seeds' means 0, 1, 2 off the lowest
    bands = [band.get_paths()[0].vertices for band in axes.collections]
    heights = [np.ptp(band[band[:, 0] == 0.5][:, 1]) for band in bands]
    assert np.allclose(heights, 2 * half)


def test_bars_of_one_place_stand_beside_each_other(results):
    (axes,) = plots.curves(results, x="sparsity", y="accuracy", title="Which?", bars=True).axes
    axes.figure.canvas.draw()
    half = 4.302652729911275 / np.sqrt(3)
    first = []
    for bars in axes.collections:
        low, high = bars.get_paths()[0].vertices
        assert low[0] == 0.5 and np.isclose(high[1] - low[1], 2 * half)
        first.append(bars.get_transform().transform(low)[0])
    assert np.allclose(np.diff(first), 3 * axes.figure.dpi / 72)


def test_bars_of_percentages_end_at_0_and_100(results):
    near = results[results.sparsity == 0.9].assign(accuracy=lambda t: t.accuracy + 10.5)
    lines = plots.bars(near, x="method", y="accuracy", title="At 90 %").axes[0].lines
    heights = [line.get_ydata() for line in lines]
    assert max(h.max() for h in heights) == 100
    lines = plots.bars(near, x="method", y="accuracy", title="t", ylabel="points").axes[0].lines
    assert max(line.get_ydata().max() for line in lines) > 100


def test_a_wide_table_may_name_two_columns_alike():
    words = pd.DataFrame([[1.0, 2.0, 0.5]], columns=["the", "film", "the"], index=["layer 1"])
    figure = plots.heat_map(words, title="Which word?", colour_label="score")
    assert "from 0.5 at layer 1, the to 2.0 at layer 1, film." in figure.course_alt
    assert figure.axes[0].get_xticklabels()[0].get_rotation() == 0


def test_long_names_of_many_columns_are_turned():
    words = pd.DataFrame([range(18)], columns=[f"yesterday {i}" for i in range(18)], index=["a"])
    figure = plots.heat_map(words, title="Which word?", colour_label="score")
    assert figure.axes[0].get_xticklabels()[0].get_rotation() == 65


def test_panels_share_limits_that_hold_all_of_them(results):
    table = results.dropna().assign(panel=lambda t: t.sparsity.map({0.5: "a", 0.9: "b"}))
    table.loc[table.panel == "a", "accuracy"] /= 2
    fig = plots.curves(table, x="sparsity", y="accuracy", panels="panel", title="t", bars=True)
    low, high = fig.axes[0].get_ylim()
    assert low < table.accuracy.min() and high > 90 and fig.axes[1].get_ylim() == (low, high)


def test_differences_are_those_that_are_compared(results):
    pairs = differences(results, "accuracy", against="random", within=["sparsity"])
    assert (pairs[pairs.method == "random"].accuracy == 0).all()
    found = compare(results, "accuracy", within=["sparsity"])
    of_one = pairs.query("method == 'Fisher' and sparsity == 0.9").accuracy
    (row,) = found.query("method == 'Fisher' and sparsity == 0.9").itertuples()
    assert np.isclose(of_one.mean(), row.difference) and len(of_one) == row.pairs


def test_each_panel_has_its_own_rank_correlation():
    points = pd.DataFrame({"panel": 3 * ["up"] + 3 * ["down"], "x": range(6), "y": [1, 2, 3] * 2})
    points.loc[3:, "y"] = [3, 2, 1]
    text = plots.scatter(points, x="x", y="y", panels="panel", title="Which way?").course_alt
    assert "rank correlation 1.00 (up); rank correlation -1.00 (down)." in text


def test_a_comparison_without_random_or_with_two_seeds_is_refused(results):
    with pytest.raises(ValueError, match="no random baseline"):
        plots.curves(results.query("method != 'random'"), x="sparsity", y="accuracy", title="t")
    with pytest.raises(ValueError, match="'magnitude' has 2 seeds"):
        plots.curves(results.query("seed < 2"), x="sparsity", y="accuracy", title="t")
    lines = results.query("seed < 2 and method == 'magnitude'")
    assert plots.curves(lines, x="sparsity", y="accuracy", title="t", control=None)


def test_a_column_that_is_missing_is_named(results):
    for draw in (plots.curves, plots.bars, plots.scatter):
        with pytest.raises(ValueError, match="no column 'loss'.*'accuracy'"):
            draw(results, x="method", y="loss", title="t")


def test_the_alternative_says_the_numbers_of_the_table(results):
    figure = plots.curves(results, x="sparsity", y="accuracy", title="Which?", note="A step.")
    text = figure.course_alt
    assert "magnitude: 88.5 at 0.5, 86.5 at 0.9." in text and "dense: 96." in text
    assert "means of 3 seeds" in text and text.endswith("A step.")
    figure = plots.bars(results.query("sparsity == 0.9"), x="method", y="accuracy", title="At 90 %")
    assert "55.5 at random" in figure.course_alt


def test_bars_have_their_number_and_an_interval(results):
    at_90 = results.query("sparsity == 0.9").assign(how="once")
    both = pd.concat([at_90, at_90.assign(how="in rounds", accuracy=at_90.accuracy - 3)])
    (axes,) = plots.bars(both, x="method", y="accuracy", by="how", title="t", fmt="{:.1f}").axes
    written = [text.get_text() for text in axes.texts]
    assert written == ["86.5", "87.4", "55.5", "83.5", "84.4", "52.5"]
    assert max(axes.get_yticks()) <= 100, "no accuracy is above 100 %"
    wide = pd.DataFrame({"seed": range(3), "how": "once", "accuracy": [5.0, 95.0, 98.0]})
    (axes,) = plots.bars(wide, x="how", y="accuracy", title="t").axes
    assert sorted(axes.lines[0].get_ydata()) == [0, 100], "an interval of percentages"
    with pytest.raises(ValueError, match="at most four"):
        plots.bars(both, x="how", y="accuracy", by="accuracy", title="t")


@pytest.mark.parametrize("ylabel", ["accuracy (%)", "BLEU"])
def test_no_axis_of_accuracy_or_bleu_goes_beyond_100(results, ylabel):
    high = results.assign(accuracy=results["accuracy"] + 2)  # intervals reach beyond 100
    (axes,) = plots.curves(high, x="sparsity", y="accuracy", ylabel=ylabel, title="t").axes
    assert axes.get_ylim()[1] <= 102
    (axes,) = plots.bars(high, x="method", y="accuracy", ylabel=ylabel, title="t").axes
    assert max(axes.get_yticks()) <= 100


def test_panels_share_an_axis_and_name_lines_once(results):
    two = pd.concat([results.assign(part="A"), results.assign(part="B")])
    figure = plots.curves(two, x="sparsity", y="accuracy", panels="part", title="t")
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim() and left.get_title(loc="left") == "A"
    assert not left.get_ylabel() == right.get_ylabel() == ""
    lower = results.assign(part="B", accuracy=results.accuracy - 50)
    figure = plots.curves(
        pd.concat([results.assign(part="A"), lower]), x="sparsity", y="accuracy", panels="part",
        title="t",
    )  # fmt: skip
    right = figure.axes[1]
    assert right.get_ylim()[0] < line(right, "random").get_ydata().min(), "no line is cut off"
    assert "A, magnitude: 88.5 at 0.5" in figure.course_alt
    assert "B, magnitude: 38.5 at 0.5" in figure.course_alt


def test_a_log_scaled_axis_has_the_measured_values_as_ticks(results):
    longer = results.dropna().assign(epochs=(results.sparsity * 40).round())
    (axes,) = plots.curves(longer, x="epochs", y="accuracy", xaxis="log", title="t").axes
    assert axes.get_xscale() == "log" and not len(axes.get_xticks(minor=True))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["20", "36"]


def test_panels_are_as_high_as_the_highest_and_are_said_one_by_one(results):
    high = results.dropna().assign(part="high").query("sparsity == 0.5")
    low = results.dropna().assign(part="low", accuracy=results["accuracy"] / 4)
    for parts in ([high, low], [low, high]):
        figure = plots.curves(
            pd.concat(parts), x="sparsity", y="accuracy", panels="part", title="Where?"
        )
        bottom, top = figure.axes[0].get_ylim()
        assert bottom < 14 and top > 90
        assert "high, Fisher: 89." in figure.course_alt and "low, Fisher: 22.2" in figure.course_alt


def test_whole_numbers_have_whole_ticks():
    table = pd.DataFrame({"layer": [0, 1, 2], "what": "change", "change": [0.1, 0.2, 0.3]})
    (axes,) = plots.curves(table, x="layer", y="change", by="what", control=None, title="t").axes
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_a_frontier_has_a_point_for_each_setting(results):
    figure = plots.frontier(
        results.dropna(), x="ms", y="accuracy", along="sparsity", title="What does speed cost?"
    )
    points = figure.axes[0].containers[0].lines[0]
    assert np.allclose(points.get_xdata(), [7.5, 5.5])
    assert np.allclose(points.get_ydata(), [88.5, 86.5])


def test_a_scatter_says_its_rank_correlation():
    table = pd.DataFrame({"forecast": [1.0, 2, 3, 4], "truth": [1.0, 2, 4, 3]})
    figure = plots.scatter(table, x="forecast", y="truth", title="t", diagonal=True)
    assert "rank correlation 0.80" in figure.course_alt


def test_a_wide_table_becomes_a_heat_map(results):
    wide = results.dropna().pivot_table(index="method", columns="sparsity", values="accuracy")
    figure = plots.heat_map(wide, title="t", colour_label="accuracy (%)")
    assert "from 55.5 at random, 90 %" in figure.course_alt
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["50 %", "90 %"]


def test_a_table_of_means(results):
    table = tables.means(results.dropna(), "accuracy", columns="sparsity")
    assert table.header == ["", "50 %", "90 %"]
    assert table.rows[0] == ["magnitude", "88.5 ± 2.5", "86.5 ± 2.5"]
    two = tables.means(results.dropna(), {"accuracy": "accuracy (%)", "ms": "ms"})
    assert two.header == ["", "accuracy (%)", "ms"] and two.rows[1][2] == "6.5 ± 0.0"
    with pytest.raises(ValueError, match="single value"):
        tables.means(results, ["accuracy", "ms"], columns="sparsity")


def test_a_comparison_is_paired_by_seed(results):
    results.loc[results.method == "Fisher", "accuracy"] += results.seed / 10
    table = tables.compare(results.dropna(), "accuracy", against="magnitude", columns="sparsity")
    assert table.rows[0] == ["Fisher", "**+0.6 ± 0.2**", "**+1.0 ± 0.2**"]
    assert "3 seeds" in table.note
    with pytest.raises(ValueError, match="against.*'Taylor'"):
        tables.compare(results, "accuracy", against="Taylor")


def test_a_difference_in_a_sentence(results):
    at_90 = results[results.sparsity == 0.9]
    assert minus(at_90, "accuracy", "magnitude", "random").startswith(
        "+31.0 ± 0.0 points (statistically distinguishable)"
    )
    at_90.loc[at_90.method == "magnitude", "accuracy"] *= [1, 0.2, 1]
    assert "not distinguishable" in minus(at_90, "accuracy", "magnitude", "random")
    with pytest.raises(ValueError, match="'Taylor'"):
        minus(at_90, "accuracy", "Taylor", "random")


def test_a_plain_table_writes_numbers_as_people_do():
    frame = pd.DataFrame({"method": ["a|b"], "weights": [266_200], "kb": [12.346], "gone": [None]})
    table = tables.plain(frame, {"kb": 2})
    assert table.header == ["", "weights", "size (kB)", "gone"]
    assert table.rows == [["a|b", "266,200", "12.35", ""]]
    assert "a\\|b" in table.markdown()


def test_a_plain_table_takes_formats():
    frame = pd.DataFrame({"numbers": ["float32"], "largest": [23.71], "apart": [5.7e-6]})
    assert tables.plain(frame, {"apart": ".0e"}).rows == [["float32", "23.7", "6e-06"]]
    assert tables.plain(frame, ".1e").rows == [["float32", "2.4e+01", "5.7e-06"]]


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
    with pytest.raises(ValueError, match="no column 'measured'"):
        plots.curves(table, x="p", y="formula", marks="measured", by="k", control=None, title="t")


def test_powers_of_two_and_plain_numbers_on_log_scaled_axes():
    table = pd.DataFrame({"heads": [1, 2, 4, 8], "what": "scores", "times": [1, 2, 4, 80]})
    (axes,) = plots.curves(
        table, x="heads", y="times", by="what", control=None, xaxis="log2", log=True, title="t"
    ).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4", "8"]
    assert axes.yaxis.get_major_formatter()(10) == "10"
    assert {1, 2, 5, 10, 20, 50} <= set(axes.get_yticks().tolist())


def test_differences_in_per_cent_may_be_negative():
    table = pd.DataFrame({"x": [0, 1], "method": "magnitude", "off": [0.0, -8.0]})
    (axes,) = plots.curves(table, x="x", y="off", control=None, ylabel="off (%)", title="t").axes
    assert axes.get_ylim()[0] < -8


def test_on_a_slide_the_name_of_the_vertical_axis_stands_above_it(results, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_SLIDES", str(tmp_path))
    (axes,) = plots.curves(results, x="sparsity", y="accuracy", title="Which order?").axes
    assert (axes.get_ylabel(), axes.get_title(loc="left")) == ("", "validation accuracy (%)")
    pruned = results.dropna()
    (axes,) = plots.bars(pruned, x="sparsity", y="accuracy", by="method", title="t").axes
    assert axes.get_legend().get_bbox_to_anchor().y0 >= axes.bbox.y1 - 1


def test_on_a_slide_the_vertical_axis_is_named_once(results, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_SLIDES", str(tmp_path))
    for fig in (
        plots.curves(results, x="sparsity", y="accuracy", title="A title", control=None),
        plots.bars(results, x="method", y="accuracy", title="A title"),
    ):
        (axes,) = fig.axes
        assert axes.get_title("left") == "validation accuracy (%)" and axes.get_ylabel() == ""
