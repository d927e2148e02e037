"""Latency: what is called how often and in which order, and what the samples become. A made-up clock; no real times."""

import gc
from itertools import chain, repeat

import pytest
import torch

from course_lib.cost import latency
from course_lib.cost.latency import Latency, compare, measure


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for what the timed functions add to it."""

    class Clock:
        now = 0.0

        def takes(self, *seconds):
            """A function whose calls take these times, the last one for ever."""
            times = chain(seconds, repeat(seconds[-1]))

            def run():
                self.now += next(times)

            return run

    clock = Clock()
    monkeypatch.setattr(latency.time, "perf_counter", lambda: clock.now)
    return clock


def test_median_quartiles_and_samples(clock):
    result = measure(clock.takes(99, 99, 99, 5, 1, 2, 100, 4), repeats=5)  # the first three warm up
    assert result.samples == pytest.approx((5, 1, 2, 100, 4))
    assert (result.median, result.low, result.high) == pytest.approx((4, 2, 5))


def test_one_sample_has_no_spread(clock):
    assert measure(clock.takes(3), warmup=0, repeats=1) == Latency(3, 3, 3, (3,))


def test_warm_up_is_called_and_not_timed():
    calls = []
    assert len(measure(lambda: calls.append(1), warmup=2, repeats=7).samples) == 7
    assert len(calls) == 9


def test_functions_take_turns_in_changing_order():
    calls = []
    result = compare({name: lambda name=name: calls.append(name) for name in "abc"}, warmup=1, repeats=20)
    assert list(result) == ["a", "b", "c"]
    rounds = [tuple(calls[i : i + 3]) for i in range(0, len(calls), 3)]
    assert len(rounds) == 21
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert len(set(rounds)) > 3


def test_samples_of_one_round_stand_side_by_side(clock):
    """A machine that gets ten times slower for some rounds slows both, and leaves the ratio alone."""
    slow = [1, 1, 10, 10, 1, 10, 1, 1]
    result = compare(
        {"ours": clock.takes(*slow), "theirs": clock.takes(*(3 * s for s in slow))}, warmup=0, repeats=len(slow)
    )
    assert result["ours"].samples == pytest.approx(slow)
    assert result["theirs"].times_slower_than(result["ours"]) == pytest.approx(3)
    assert result["ours"].times_slower_than(result["theirs"]) == pytest.approx(1 / 3)


def test_ratios_need_samples_of_one_run(clock):
    with pytest.raises(ValueError, match="not from one compare"):
        measure(clock.takes(1), repeats=3).times_slower_than(measure(clock.takes(1), repeats=4))


def test_threads_are_set_and_put_back():
    before = torch.get_num_threads()
    seen = []
    measure(lambda: seen.append(torch.get_num_threads()), repeats=2, threads=before + 1)
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_a_failure_leaves_nothing_behind():
    before = torch.get_num_threads()

    def fail():
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        measure(fail, threads=before + 1)
    assert torch.get_num_threads() == before
    assert gc.isenabled()


def test_no_collection_disturbs_a_call():
    seen = []
    measure(lambda: seen.append(gc.isenabled()))
    assert not any(seen) and gc.isenabled()
    gc.disable()
    try:
        measure(lambda: None)
        assert not gc.isenabled()  # was off, stays off
    finally:
        gc.enable()


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"warmup": -1}, {"threads": 0}])
def test_bad_arguments(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        measure(lambda: None, **wrong)


def test_nothing_to_compare():
    assert compare({}) == {}


def test_results_read_well():
    assert str(Latency(1.5, 1.25, 2, ())) == "1.5 s (1.25 to 2)"
    assert str(Latency(0.0234, 0.02, 0.03, ())) == "23.4 ms (20 to 30)"
    assert str(Latency(2.5e-6, 2e-6, 3e-6, ())) == "2.5 µs (2 to 3)"


def test_a_forward_pass_to_time_has_no_gradient_and_no_dropout():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5)).train()
    x = torch.randn(4, 3)
    once = latency.forward(model, x)
    assert torch.equal(once(), model[0](x)) and not once().requires_grad
    assert list(measure(once, repeats=3).samples) and not model.training
