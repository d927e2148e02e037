"""Tables and sentences of long tables: means and differences with intervals, numbers as
people write them.
"""

import numpy as np
import pandas as pd
import pytest

from course_lib.intervals import compare, differences
from course_lib.show import tables
from course_lib.show.words import minus
from unit.show.long import three_methods


@pytest.fixture
def results() -> pd.DataFrame:
    return three_methods()


def test_a_table_of_means(results):
    table = tables.means(results.dropna(), "accuracy", columns="sparsity")
    assert table.header == ["", "50 %", "90 %"]
    assert table.rows[0] == ["magnitude", "88.5 ± 2.5", "86.5 ± 2.5"]
    two = tables.means(results.dropna(), {"accuracy": "accuracy (%)", "ms": "ms"})
    assert two.header == ["", "accuracy (%)", "ms"] and two.rows[1][2] == "6.5 ± 0.0"


def test_a_comparison_is_paired_by_seed(results):
    results.loc[results.method == "Fisher", "accuracy"] += results.seed / 10
    table = tables.compare(results.dropna(), "accuracy", against="magnitude", columns="sparsity")
    assert table.rows[0] == ["Fisher", "**+0.6 ± 0.2**", "**+1.0 ± 0.2**"]
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


@pytest.mark.parametrize(
    ("frame", "digits", "row"),
    [
        ({"method": ["a|b"], "weights": [266_200], "kb": [12.346], "gone": [None]}, {"kb": 2},
         ["a|b", "266,200", "12.35", ""]),
        ({"numbers": ["float32"], "largest": [23.71], "apart": [5.7e-6]}, {"apart": ".0e"},
         ["float32", "23.7", "6e-06"]),
        ({"numbers": ["float32"], "largest": [23.71], "apart": [5.7e-6]}, ".1e",
         ["float32", "2.4e+01", "5.7e-06"]),
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
