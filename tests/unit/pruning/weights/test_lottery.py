"""Lottery tickets: exact nested masks, rewinding that copies, controls that differ in
one thing, a search that resumes.
"""

import copy
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from course_lib.pruning.weights import apply, dense_masks, prunable, remaining
from course_lib.pruning.weights.lottery import (
    early_stop,
    find_ticket,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
    steps_to,
)
from course_lib.training import fit
from unit.pruning.weights.trainings import DIGITS, Log, counts, same, small, state_of

# ---- shrink


@st.composite
def layers(draw):
    """Weights with many ties, and masks that have pruned some of them."""
    weights, masks = {}, {}
    for i in range(draw(st.integers(1, 4))):
        shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
        n = math.prod(shape)
        values = draw(
            st.lists(st.integers(-3, 3) | st.floats(-2, 2, width=32), min_size=n, max_size=n)
        )
        weights[f"layer{i}"] = torch.tensor(values, dtype=torch.float32).view(shape)
        masks[f"layer{i}"] = torch.tensor(
            draw(st.lists(st.booleans(), min_size=n, max_size=n))
        ).view(shape)
    return weights, masks


@settings(deadline=None)
@given(layers(), st.floats(0, 1), st.none() | st.floats(0, 1))
def test_shrink_prunes_a_share_of_the_survivors_the_smallest_first(drawn, rate, output_rate):
    weights, masks = drawn
    before = copy.deepcopy(drawn)
    new = shrink(weights, masks, rate, output_rate)
    assert same(before, drawn) and list(new) == list(weights)
    for i, name in enumerate(weights):
        share = rate if i < len(weights) - 1 else rate / 2 if output_rate is None else output_rate
        size, alive = weights[name].abs().flatten().tolist(), masks[name].flatten().tolist()
        # ties: the lower index first
        survivors = sorted((w, j) for j, w in enumerate(size) if alive[j])
        gone = {j for _, j in survivors[: round(share * len(survivors))]}
        assert new[name].flatten().tolist() == [a and j not in gone for j, a in enumerate(alive)]
        assert new[name].dtype == torch.bool and new[name].shape == weights[name].shape


def test_what_was_pruned_stays_pruned_though_it_has_grown_or_is_no_number():
    weights = {"a": torch.tensor([[9.0, math.nan, 1.0, 2.0]]), "b": torch.ones(1, 2)}
    masks = {
        "a": torch.tensor([[False, False, True, True]]),
        "b": torch.ones(1, 2, dtype=torch.bool),
    }
    assert shrink(weights, masks, 0.5)["a"].tolist() == [[False, False, False, True]]


# ---- rewind


def test_rewind_puts_back_parameters_and_buffers_and_prunes():
    model = small()
    state, identities = state_of(model), [id(p) for p in model.parameters()]
    saved = copy.deepcopy(state)
    masks = {name: torch.rand(p.shape) > 0.5 for name, p in prunable(model).items()}
    for _ in range(2):  # the second time shows whether the first one handed out the saved tensors
        fit(model, DIGITS.subset(60).train, epochs=1, masks=masks, progress=False)
        assert not torch.equal(model.state_dict()["1.running_mean"], saved["1.running_mean"])
        rewind(model, state, masks)
        assert same(dict(state), dict(saved))
        expected = {name: value.clone() for name, value in saved.items()}
        for name, mask in masks.items():
            expected[name][~mask] = 0
        assert same(dict(model.state_dict()), expected)
        assert [id(p) for p in model.parameters()] == identities
        assert all(p.grad is None for p in model.parameters())


# ---- controls


@settings(deadline=None)
@given(layers(), st.integers(0, 2**40))
def test_a_random_ticket_has_the_counts_of_each_layer(drawn, seed):
    _, masks = drawn
    before, global_state = copy.deepcopy(masks), torch.random.get_rng_state()
    new = random_ticket(masks, torch.Generator().manual_seed(seed))
    assert counts(new) == counts(masks) and same(masks, before)
    assert all(
        new[name].shape == masks[name].shape and new[name].dtype == torch.bool for name in masks
    )
    assert same(new, random_ticket(masks, torch.Generator().manual_seed(seed)))
    assert torch.equal(torch.random.get_rng_state(), global_state)


def test_a_random_ticket_may_be_anywhere_with_equal_chance():
    masks = {"a": torch.tensor([[True, True, False], [False, False, False]])}
    generator = torch.Generator().manual_seed(0)
    total = sum(random_ticket(masks, generator)["a"].float() for _ in range(3000))
    assert (total - 1000).abs().max() < 6 * math.sqrt(3000 * (1 / 3) * (2 / 3))


def test_random_tickets_of_nested_masks_are_nested_for_equal_seeds():
    first = {"a": torch.rand(20, 30) > 0.3, "b": torch.rand(7, 7) > 0.3}
    second = shrink({name: torch.rand(mask.shape) for name, mask in first.items()}, first, 0.4)
    a, b = (random_ticket(masks, torch.Generator().manual_seed(3)) for masks in (first, second))
    assert all((b[name] <= a[name]).all() for name in a)


def test_reinitialise_is_reset_parameters_in_order_from_the_seed():
    model, oracle = small(5), small(6)
    fit(model, DIGITS.train, epochs=1, progress=False)
    identities = [id(p) for p in model.parameters()]
    masks = {name: torch.rand(p.shape) > 0.5 for name, p in prunable(model).items()}
    global_state = torch.random.get_rng_state()
    assert reinitialise(model, masks, 11) is None
    assert torch.equal(torch.random.get_rng_state(), global_state)
    with torch.random.fork_rng():
        torch.manual_seed(11)
        for module in oracle.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
    apply(oracle, masks)
    # with fresh running statistics too
    assert same(dict(model.state_dict()), dict(oracle.state_dict()))
    assert [id(p) for p in model.parameters()] == identities


# ---- speed


@given(st.lists(st.integers(0, 5) | st.just(math.nan), min_size=1), st.integers(1, 100))
def test_early_stop_is_the_first_minimum(losses, every):
    usable = [loss for loss in losses if loss == loss]
    assume(usable)
    assert early_stop(losses, every) == every * (1 + losses.index(min(usable)))


def test_steps_to_a_level():
    assert steps_to([90, 95, 94, 96], 95, every=4) == 8
    assert steps_to([90, math.nan], 95, every=4) is None and steps_to([], 1) is None


# ---- the search


@pytest.mark.parametrize("k", [0, 2])
def test_the_search_is_imp_with_rewinding(k):
    log = Log()
    records = find_ticket(small, log, 3, 0.4, k)
    pre = 1 if k else 0
    assert log.calls == [(0, k)] * pre + [(k, None)] * 4
    assert [list(r) for r in records] == [["round", "masks", "remaining", "result"]] * 4
    assert [r["round"] for r in records] == [0, 1, 2, 3]
    assert [r["result"]["start"] for r in records] == [k] * 4
    model = small()
    assert same(records[0]["masks"], dense_masks(model)) and records[0]["remaining"] == 1
    w_k = log.after[0] if k else state_of(model)
    for r, record in enumerate(records):
        assert record["remaining"] == remaining(record["masks"])
        expected = {name: value.clone() for name, value in w_k.items()}
        for name, mask in record["masks"].items():
            expected[name][~mask] = 0
        assert same(dict(log.before[pre + r]), expected)  # every round starts from w_k
        if r:  # and its masks come from what the round before has trained
            earlier, weights = (
                records[r - 1]["masks"],
                {name: log.after[pre + r - 1][name] for name in record["masks"]},
            )
            assert same(record["masks"], shrink(weights, earlier, 0.4))
            assert all((record["masks"][name] <= earlier[name]).all() for name in earlier)


def test_a_training_that_writes_into_its_masks_does_not_change_the_records():
    def train(model, masks, start, stop):
        for mask in masks.values():
            mask.zero_()
        return None

    assert [r["remaining"] for r in find_ticket(small, train, 1, 0.5)] == [
        1,
        pytest.approx(0.5, abs=0.05),
    ]
