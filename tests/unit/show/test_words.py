"""Sentences with numbers: the interval decides what they say, and a missing prediction
is no mistake.
"""

import IPython.display
import pandas as pd
import pytest

from course_lib.intervals import compare, interval
from course_lib.show.words import pm, say, versus, you_wrote


def test_a_mean_with_its_interval() -> None:
    mean, half = interval([97.0, 98.0, 99.5])
    assert pm([97.0, 98.0, 99.5]) == f"{mean:.1f} ± {half:.1f}"
    assert pm([97.0, 98.0, 99.5], digits=3) == f"{mean:.3f} ± {half:.3f}"


def test_a_difference_is_taken_in_pairs_and_distinguishable_only_beyond_its_interval() -> None:
    theirs = [10.0, 50.0, 90.0]
    # 2 to 2.5, however much the pairs differ
    assert versus([12.0, 52.5, 92.0], theirs).endswith("points (statistically distinguishable)")
    assert versus([12.0, 49.0, 92.0], theirs).endswith("(not distinguishable)")
    assert versus([12.0, 52.5, 92.0], theirs, "steps").endswith(
        "steps (statistically distinguishable)"
    )


def test_differences_that_are_all_equal_are_no_evidence() -> None:
    equal, theirs = [10.25, 50.25, 90.25], [10.0, 50.0, 90.0]
    assert versus(equal, theirs, digits=2) == "+0.25 ± 0.00 points (equal in all seeds)"
    assert versus(equal, theirs, cell=True, digits=2) == "+0.25 ± 0.00"
    table = pd.DataFrame(
        {"seed": [0, 1, 2] * 2, "method": ["a"] * 3 + ["b"] * 3, "accuracy": equal + theirs}
    )
    assert not compare(table, "accuracy", against="b")["distinguishable"].any()


def test_in_a_cell_of_a_table_a_distinguishable_difference_is_bold() -> None:
    theirs = [10.0, 50.0, 90.0]
    said = versus([12.0, 52.5, 92.0], theirs, "", cell=True)
    assert said.startswith("**+2.2 ± ") and said.endswith("**")
    assert versus([12.0, 49.0, 92.0], theirs, cell=True, digits=0) == "+1 ± 4"


def test_predictions() -> None:
    assert you_wrote(...) == "You had written nothing: a guess costs nothing."
    assert you_wrote(0) == "You had written: 0."


def test_markdown_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list = []
    monkeypatch.setattr(IPython.display, "display", received.append)
    say("**bold**")
    assert [text.data for text in received] == ["**bold**"]


def test_no_difference_has_no_sign_of_its_own() -> None:
    assert versus([1.0, 2.0, 3.0], [1.01, 2.01, 3.01]).startswith("+0.0 ±")
    assert pm([-0.01, -0.02, -0.01]).startswith("0.0 ±")
