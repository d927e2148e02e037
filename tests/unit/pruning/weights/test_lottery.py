"""Lottery tickets: exact nested masks, rewinding that copies, controls that differ in
one thing, a search that resumes.
"""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.models import build
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


def test_rates_layer_by_layer():
    weights = {name: torch.rand(10, 10) for name in "abc"}
    masks = {name: torch.ones(10, 10, dtype=torch.bool) for name in "abc"}
    assert counts(shrink(weights, masks, {"c": 0.1, "a": 0.5, "b": 0.0})) == {
        "a": 50,
        "b": 100,
        "c": 90,
    }
    assert counts(shrink(weights, masks, {"c": 0.1, "a": 0.5, "b": 0.0}, 0.3)) == {
        "a": 50,
        "b": 100,
        "c": 70,
    }
    assert counts(shrink(weights, masks, 0.2)) == {"a": 80, "b": 80, "c": 90}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate": 1.2}, "between 0 and 1"),
        ({"rate": 20}, "for 20 % write 0.2"),
        ({"rate": -0.1}, "share of the surviving weights"),
        ({"rate": math.nan}, "between 0 and 1"),
        ({"output_rate": 2.0}, "between 0 and 1"),
        ({"rate": {"a": 0.1}}, "missing or unknown: .'b'."),
        ({"masks": {"a": torch.ones(2, 3, dtype=torch.bool)}}, "no mask for 'b'"),
        ({"weights": {"a": torch.ones(2, 3)}}, "no weights, for 'b'"),
        (
            {"masks": {"a": torch.ones(2, 3, dtype=torch.bool), "b": torch.ones(2, 3)}},
            "bool tensor.*mask.bool",
        ),
        (
            {
                "masks": {
                    "a": torch.ones(2, 3, dtype=torch.bool),
                    "b": torch.ones(3, 2, dtype=torch.bool),
                }
            },
            r"\(3, 2\)",
        ),
        ({"weights": {"a": torch.full((2, 3), math.nan), "b": torch.ones(2, 3)}}, "'a' is NaN"),
    ],
)
def test_shrink_says_what_is_wrong(change, words):
    arguments = {
        "weights": {"a": torch.ones(2, 3), "b": torch.ones(2, 3)},
        "masks": {name: torch.ones(2, 3, dtype=torch.bool) for name in "ab"},
        "rate": 0.2,
    }
    with pytest.raises(ValueError, match=words):
        shrink(**{**arguments, **change})


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


def test_rewind_leaves_zeros_where_the_saved_state_is_no_number():
    model = small()
    state, masks = state_of(model), dense_masks(model)
    for name, bad in (("0.weight", math.nan), ("4.weight", math.inf), ("5.weight", -math.inf)):
        masks[name].view(-1)[::3] = False
        state[name].view(-1)[::3] = bad  # times zero these would be NaN
    rewind(model, state, masks)
    for name, mask in masks.items():
        weight = model.get_parameter(name)
        assert (weight[~mask] == 0).all() and torch.equal(weight[mask], state[name][mask])


def wrong_states():
    state = state_of(small())
    fewer = {name: value for name, value in state.items() if name != "4.bias"}
    return [
        (fewer, "'4.bias' is only in one"),
        ({**state, "5.bias": torch.ones(3)}, r"state\['5.bias'\] has shape \(3,\)"),
        ({**state, "extra": torch.ones(3)}, "'extra' is only in one"),
    ]


@pytest.mark.parametrize(("state", "words"), wrong_states())
def test_a_state_of_another_model_is_refused_before_anything_is_changed(state, words):
    model = small(1)
    before = state_of(model)
    with pytest.raises(ValueError, match=words):
        rewind(model, state, dense_masks(model))
    assert same(before, state_of(model))


def test_a_state_that_was_not_copied_is_refused():
    model = small()
    with pytest.raises(ValueError, match=r"own memory.*deepcopy"):
        rewind(model, model.state_dict(), dense_masks(model))


def test_masks_of_another_model_are_refused_before_anything_is_changed():
    model, state = small(1), state_of(small())
    with pytest.raises(ValueError, match="names no parameter"):
        rewind(model, state, {"fc9.weight": torch.ones(2, 2, dtype=torch.bool)})
    assert same(state_of(model), state_of(small(1)))


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


def test_a_random_ticket_needs_a_generator_and_masks():
    with pytest.raises(TypeError, match="torch.Generator"):
        random_ticket({"a": torch.ones(2, 2, dtype=torch.bool)}, 0)
    with pytest.raises(ValueError, match="bool tensor"):
        random_ticket({"a": torch.ones(2, 2)}, torch.Generator())


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


# the trap that the docstring warns of
def test_reinitialise_with_the_first_seed_gives_the_first_weights():
    model = build("lenet300", DIGITS, 4)
    first = state_of(model)
    reinitialise(model, dense_masks(model), 4)
    assert same(dict(model.state_dict()), dict(first))


def test_reinitialise_refuses_parameters_that_it_cannot_draw():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.token = nn.Parameter(torch.zeros(1, 2))

    model = nn.Sequential(Odd())
    before = state_of(model)
    with pytest.raises(ValueError, match=r"0 \(Odd\) holds 'token'.*reset_parameters"):
        reinitialise(model, {}, 0)
    assert same(before, state_of(model))


# ---- speed


@given(st.lists(st.integers(0, 5) | st.just(math.nan), min_size=1), st.integers(1, 100))
def test_early_stop_is_the_first_minimum(losses, every):
    usable = [loss for loss in losses if loss == loss]
    if not usable:
        with pytest.raises(ValueError, match="all NaN"):
            early_stop(losses, every)
    else:
        assert early_stop(losses, every) == every * (1 + losses.index(min(usable)))
        assert early_stop(torch.tensor(losses, dtype=torch.float64), every) == early_stop(
            losses, every
        )


def test_early_stop_refuses_nothing_and_half_steps():
    with pytest.raises(ValueError, match="there are none"):
        early_stop([])
    for every in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="whole number"):
            early_stop([1.0], every)


def test_steps_to_a_level():
    assert steps_to([90, 95, 94, 96], 95, every=4) == 8
    assert steps_to([90, math.nan], 95, every=4) is None and steps_to([], 1) is None
    with pytest.raises(ValueError, match="NaN"):
        steps_to([1.0], math.nan)


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


def test_zero_rounds_train_the_dense_network_alone():
    records = find_ticket(small, Log(), 0, 0.2)
    assert len(records) == 1 and records[0]["remaining"] == 1


def test_a_training_that_writes_into_its_masks_does_not_change_the_records():
    def train(model, masks, start, stop):
        for mask in masks.values():
            mask.zero_()
        return None

    assert [r["remaining"] for r in find_ticket(small, train, 1, 0.5)] == [
        1,
        pytest.approx(0.5, abs=0.05),
    ]


def test_results_may_be_anything_where_nothing_is_written():
    records = find_ticket(small, lambda model, masks, start, stop: model, 1, 0.2)
    assert isinstance(records[0]["result"], nn.Module)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": -1}, "rounds is a whole number, 0 or more, got -1"),
        ({"rounds": 1.5}, "rounds is a whole number"),
        ({"rewind_step": -1}, "rewind_step is a whole number"),
        ({"rate": 20}, "for 20 % write 0.2"),
        ({"output_rate": -1}, "between 0 and 1"),
        ({"rate": {"x": 0.2}}, "missing or unknown"),
        ({"build": lambda: nn.BatchNorm1d(3)}, "nothing to prune"),
    ],
)
def test_bad_arguments_are_refused_before_any_training(change, words):
    log = Log()
    with pytest.raises(ValueError, match=words):
        find_ticket(**{"build": small, "train": log, "rounds": 2, "rate": 0.2, **change})
    assert not log.calls
