"""Two orders, the same shares: what is thin stays thin as it gets narrow."""

import pytest

from course_lib.capstone import given
from course_lib.experiments import lab11, lab11_order


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(lab11_order, "EPOCHS", (1, 1))
    monkeypatch.setattr(lab11_order, "SPARSE", 1)
    monkeypatch.setattr(lab11_order, "AFTER", 1)


def test_a_net_with_zeros_gets_narrow_and_keeps_its_zeros():
    thin = lab11.thinned(given("cnn"), (0.9,), (1,), 0)
    narrow = lab11_order.narrowed_with_zeros(thin, 0)
    assert [narrow.get_submodule(f"conv{i}").out_channels for i in range(1, 5)] == [13, 10, 19, 19]
    before, after = lab11_order.left(thin), lab11_order.left(narrow)
    assert after["weights"] < before["weights"] / 5
    assert 0 < after["not zero"] <= before["not zero"], (
        "a zero that is cut out, none that comes back"
    )


@pytest.mark.long
def test_both_orders_end_at_the_same_widths_and_are_measured_alike():
    found = lab11_order.both(0, 0)
    one, other = found["narrow, then thin"], found["thin, then narrow"]
    assert one["weights"] == other["weights"] < found["thin"]["weights"]
    assert found["thin"]["not zero"] == round(0.22 * found["thin"]["weights"])
    assert one["not zero"] == round(0.22 * one["weights"])
    for arm in (one, other):
        assert len(arm["measured"]) == len(lab11_order.SEEDS)
        assert arm["measured"][0]["given_bits"] == one["measured"][0]["given_bits"]
