"""Tables and sentences of long tables: means and differences with intervals, numbers as
people write them.
"""

import IPython.display
import numpy as np
import pandas as pd
import pytest

from course_lib.intervals import compare, differences, interval
from course_lib.show import tables
from course_lib.show.words import minus, pm, say, versus
from unit.show.long import three_methods


@pytest.fixture
def results() -> pd.DataFrame:
    return three_methods()


def test_a_table_of_means(results):
    table = tables.means(results.dropna(), "accuracy", columns="sparsity")
    assert table.header == ["", "50 %", "90 %"]
    assert table.rows[0] == ["magnitude", "88.5 ± 2.5", "86.5 ± 2.5"]


def test_what_was_measured_once_has_no_interval_and_each_column_its_own_seeds(results):
    once = results.dropna().assign(ms=results["ms"].where(results["seed"] == 0))
    table = tables.means(once, {"accuracy": "accuracy (%)", "ms": "ms"})
    assert table.header == ["", "accuracy (%)", "ms"] and table.rows[1][2] == "6.5"
    assert "accuracy (%): 3 seeds; ms: one run" in table.note
    assert "3 seeds" not in tables.means(once, "ms").note


def test_a_comparison_is_paired_by_seed(results):
    results.loc[results.method == "Fisher", "accuracy"] += results.seed / 10
    table = tables.compare(results.dropna(), "accuracy", against="magnitude", columns="sparsity")
    assert table.rows[0] == ["Fisher", "**+0.6 ± 0.2**", "**+1.0 ± 0.2**"]
    assert table.rows[1][1] == "−17.0 ± 0.0", "no width, not bold; a minus sign"
    assert "3 seeds" in table.note
    pairs = differences(results, "accuracy", against="random", within=["sparsity"])
    assert (pairs[pairs.method == "random"].accuracy == 0).all()
    found = compare(results, "accuracy", within=["sparsity"])
    of_one = pairs.query("method == 'Fisher' and sparsity == 0.9").accuracy
    (row,) = found.query("method == 'Fisher' and sparsity == 0.9").itertuples()
    assert np.isclose(of_one.mean(), row.difference) and len(of_one) == row.pairs


def test_a_difference_in_a_sentence(results):
    at_90 = results[results.sparsity == 0.9].copy()
    said = minus(at_90, "accuracy", "magnitude", "random")
    assert said.startswith("+31.0 ± 0.0 points (equal in all seeds)")
    at_90.loc[at_90.method == "magnitude", "accuracy"] *= [1, 0.2, 1]
    assert "not distinguishable" in minus(at_90, "accuracy", "magnitude", "random")


def test_tables_are_folded_on_a_page_and_open_on_a_slide(results, monkeypatch, tmp_path):
    table = tables.means(results.dropna(), "accuracy", columns="sparsity")
    folded = table.markdown()
    assert folded.startswith("<details><summary>Table: validation accuracy (%)</summary>\n\n| ")
    assert folded.endswith("\n\n</details>")
    assert tables.plain(results[:2]).markdown().startswith("|")
    monkeypatch.setenv("COURSE_SLIDES", str(tmp_path))
    assert table.markdown().startswith("|")


def test_a_heading_renames_no_quantity():
    counts = tables.plain(pd.DataFrame({"pruned": [3, 4], "kept": [0.25, 1.0]}))
    assert counts.header == ["pruned", "kept"]
    assert counts.rows == [["3", "25 %"], ["4", "100 %"]]
    assert tables.plain(pd.DataFrame({"kept": [0.5, 35.0]})).rows == [["0.5"], ["35.0"]]


def test_a_symbol_is_a_formula_in_a_table(results):
    table = tables.compare(results.dropna().replace({"method": {"Fisher": "I_h"}}), "accuracy")
    assert "$I_h$" in [row[0] for row in table.rows]


@pytest.mark.parametrize(
    ("frame", "digits", "row"),
    [
        ({"method": ["a|b"], "weights": [266_200], "kb": [12.346], "gone": [None]}, {"kb": 2},
         ["a|b", "266,200", "12.35", ""]),
        ({"numbers": ["float32"], "largest": [23.71], "apart": [5.7e-6]}, {"apart": ".0e"},
         ["float32", "23.7", "6e−06"]),
        ({"numbers": ["float32"], "largest": [23.71], "apart": [-5.7]}, ".1e",
         ["float32", "2.4e+01", "−5.7e+00"]),
    ],
)  # fmt: skip
def test_a_plain_table_writes_numbers_as_people_do(frame, digits, row):
    table = tables.plain(pd.DataFrame(frame), digits)
    assert table.rows == [row]
    if "kb" in frame:
        assert table.header == ["", "weights", "size (kB)", "gone"]
        assert "a\\|b" in table.markdown()


ALL = three_methods()
REFUSED = [
    ("columns", lambda: tables.means(ALL, ["accuracy", "ms"], columns="sparsity")),
    ("against", lambda: tables.compare(ALL, "accuracy", against="Taylor")),
    ("one", lambda: minus(ALL, "accuracy", "Taylor", "random")),
]


@pytest.mark.parametrize(("at_fault", "call"), REFUSED)
def test_it_is_refused_by_name(at_fault, call):
    with pytest.raises(ValueError, match=at_fault):
        call()


# ------------------------------------------------------------------------------ sentences
def test_a_mean_with_its_interval() -> None:
    mean, half = interval([97.0, 98.0, 99.5])
    assert pm([97.0, 98.0, 99.5]) == f"{mean:.1f} ± {half:.1f}"
    assert pm([97.0, 98.0, 99.5], digits=3) == f"{mean:.3f} ± {half:.3f}"
    assert pm([-0.01, -0.02, -0.01]).startswith("0.0 ±"), "0 has no sign"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([12.0, 52.5, 92.0], "statistically distinguishable"),  # 2 to 2.5 in each pair
        ([12.0, 49.0, 92.0], "not distinguishable"),
        ([11.0, 51.0, 91.0], "equal in all seeds"),
    ],
)
def test_a_difference_is_taken_in_pairs(ours, verdict) -> None:
    theirs = [10.0, 50.0, 90.0]
    assert versus(ours, theirs).endswith(f" points ({verdict})")
    bold = verdict == "statistically distinguishable"
    assert versus(ours, theirs, cell=True).startswith("**+") == bold
    table = pd.DataFrame({"seed": range(3), "a": ours, "b": theirs}).melt(
        "seed", var_name="method", value_name="accuracy"
    )
    assert minus(table, "accuracy", "a", "b") == versus(ours, theirs)


def test_one_run_has_no_verdict_and_zero_no_sign() -> None:
    assert versus([11.0], [10.0]) == "+1.0 points (one run)"
    assert versus([1.0, 2.0, 3.0], [1.01, 2.02, 3.01]).startswith("+0.0 ±")
    assert versus([1.0, 2.0, 3.5], [3.0, 4.0, 5.0]).startswith("−1.8 ±")


def test_markdown_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list = []
    monkeypatch.setattr(IPython.display, "display", received.append)
    say("**bold**")
    assert [text.data for text in received] == ["**bold**"]
