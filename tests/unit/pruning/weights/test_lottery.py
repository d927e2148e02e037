"""Lottery tickets: exact nested masks, rewinding that copies, controls that differ in one thing, a search that resumes."""

import concurrent.futures
import copy
import json
import math
import pickle
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.data import images
from course_lib.models import build
from course_lib.parallel import processes
from course_lib.pruning.weights import apply, dense_masks, lottery, prunable, remaining, ticket_folder
from course_lib.pruning.weights.lottery import (
    early_stop,
    find_ticket,
    find_tickets,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
    steps_to,
)
from course_lib.training import fit
from course_lib.trials import train_and_test

DIGITS = images.load("digits")


def small(seed=0):
    """Conv, batch norm (buffers), dropout: whatever a state can hold. Used from other processes, so at the top."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 12), nn.Linear(12, 10)
        )


class Log:
    """A training on the digits that remembers its calls, and the states at their beginning and end."""

    def __init__(self, steps=6, lr=0.05, stop_at=None):
        self.steps, self.lr, self.stop_at = steps, lr, stop_at
        self.calls, self.before, self.after = [], [], []

    def __call__(self, model, masks, start, stop):
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append((start, stop))
        self.before.append(state_of(model))
        history = fit(
            model,
            DIGITS.train,
            epochs=1,
            start=start,
            stop=self.steps if stop is None else stop,
            masks=masks,
            lr=self.lr,
            progress=False,
        )
        self.after.append(state_of(model))
        return {"loss": history.loss[-1], "start": start}


def trained(model, masks, start, stop, seed=0, lr=0.05, steps=6):
    history = fit(
        model,
        DIGITS.train,
        epochs=1,
        start=start,
        stop=steps if stop is None else stop,
        masks=masks,
        lr=lr,
        seed=seed,
        progress=False,
    )
    return {"loss": history.loss[-1], "images": torch.tensor([3])}


def failing(model, masks, start, stop, seed=0):
    if seed == 1 and remaining(masks) < 1:
        raise ZeroDivisionError("seed 1 fails after its dense round")
    return trained(model, masks, start, stop, seed)


def odd_result(model, masks, start, stop, seed=0):
    return object()


def state_of(model):
    return copy.deepcopy(model.state_dict())


def same(a, b):
    """Equal to the bit, whatever the nesting."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def counts(masks):
    return {name: int(mask.sum()) for name, mask in masks.items()}


# ---- shrink


@st.composite
def layers(draw):
    """Weights with many ties, and masks that have pruned some of them."""
    weights, masks = {}, {}
    for i in range(draw(st.integers(1, 4))):
        shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
        n = math.prod(shape)
        values = draw(st.lists(st.integers(-3, 3) | st.floats(-2, 2, width=32), min_size=n, max_size=n))
        weights[f"layer{i}"] = torch.tensor(values, dtype=torch.float32).view(shape)
        masks[f"layer{i}"] = torch.tensor(draw(st.lists(st.booleans(), min_size=n, max_size=n))).view(shape)
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
        survivors = sorted((w, j) for j, w in enumerate(size) if alive[j])  # ties: the lower index first
        gone = {j for _, j in survivors[: round(share * len(survivors))]}
        assert new[name].flatten().tolist() == [a and j not in gone for j, a in enumerate(alive)]
        assert new[name].dtype == torch.bool and new[name].shape == weights[name].shape


def test_what_was_pruned_stays_pruned_though_it_has_grown_or_is_no_number():
    weights = {"a": torch.tensor([[9.0, math.nan, 1.0, 2.0]]), "b": torch.ones(1, 2)}
    masks = {"a": torch.tensor([[False, False, True, True]]), "b": torch.ones(1, 2, dtype=torch.bool)}
    assert shrink(weights, masks, 0.5)["a"].tolist() == [[False, False, False, True]]


def test_rates_layer_by_layer():
    weights = {name: torch.rand(10, 10) for name in "abc"}
    masks = {name: torch.ones(10, 10, dtype=torch.bool) for name in "abc"}
    assert counts(shrink(weights, masks, {"c": 0.1, "a": 0.5, "b": 0.0})) == {"a": 50, "b": 100, "c": 90}
    assert counts(shrink(weights, masks, {"c": 0.1, "a": 0.5, "b": 0.0}, 0.3)) == {"a": 50, "b": 100, "c": 70}
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
        ({"masks": {"a": torch.ones(2, 3, dtype=torch.bool), "b": torch.ones(2, 3)}}, "bool tensor.*mask.bool"),
        ({"masks": {"a": torch.ones(2, 3, dtype=torch.bool), "b": torch.ones(3, 2, dtype=torch.bool)}}, r"\(3, 2\)"),
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
    assert all(new[name].shape == masks[name].shape and new[name].dtype == torch.bool for name in masks)
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
    assert same(dict(model.state_dict()), dict(oracle.state_dict()))  # with fresh running statistics too
    assert [id(p) for p in model.parameters()] == identities


def test_reinitialise_with_the_first_seed_gives_the_first_weights():  # the trap that the docstring warns of
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
        assert early_stop(torch.tensor(losses, dtype=torch.float64), every) == early_stop(losses, every)


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
            earlier, weights = records[r - 1]["masks"], {name: log.after[pre + r - 1][name] for name in record["masks"]}
            assert same(record["masks"], shrink(weights, earlier, 0.4))
            assert all((record["masks"][name] <= earlier[name]).all() for name in earlier)


def test_zero_rounds_train_the_dense_network_alone():
    records = find_ticket(small, Log(), 0, 0.2, controls=("reinit", "random"))
    assert len(records) == 1 and records[0]["controls"] == {}


def test_a_training_that_writes_into_its_masks_does_not_change_the_records():
    def train(model, masks, start, stop):
        for mask in masks.values():
            mask.zero_()
        return None

    assert [r["remaining"] for r in find_ticket(small, train, 1, 0.5)] == [1, pytest.approx(0.5, abs=0.05)]


def test_results_may_be_anything_where_nothing_is_written():
    records = find_ticket(small, lambda model, masks, start, stop: model, 1, 0.2)
    assert isinstance(records[0]["result"], nn.Module)


@pytest.mark.parametrize("k", [0, 2])
def test_each_control_differs_from_the_ticket_in_one_thing(k):
    log = Log()
    records = find_ticket(small, log, 2, 0.4, k, controls=("reinit", "random"), seed=7)
    pre = 1 if k else 0
    assert log.calls[pre:] == [(k, None)] + [(k, None), (0, None), (k, None)] * 2
    ticket, reinit, random = (log.before[pre + i] for i in (1, 2, 3))
    second = log.before[pre + 5]  # reinit of the next round
    record, later = records[1], records[2]
    masks, elsewhere = record["masks"], record["controls"]["random"]["masks"]
    assert same(record["controls"]["reinit"]["masks"], masks)
    assert counts(elsewhere) == counts(masks) and not same(elsewhere, masks)
    assert all((later["controls"]["random"]["masks"][name] <= elsewhere[name]).all() for name in masks)
    w_k = log.after[0] if k else state_of(small())
    for name, mask in masks.items():
        assert torch.equal(random[name], w_k[name] * elsewhere[name])  # the same weights, under another mask
        assert torch.equal(reinit[name] != 0, mask) and (reinit[name] != ticket[name])[mask].all()  # other weights
        assert torch.equal(second[name], reinit[name] * later["masks"][name])  # one initialisation for all rounds
    assert (reinit["1.running_mean"] == 0).all()
    assert record["controls"]["random"]["result"] == {"loss": pytest.approx(0, abs=1e9), "start": k}


def test_the_controls_follow_the_seed_and_the_ticket_does_not():
    a, b, c = (find_ticket(small, trained, 1, 0.4, controls=("random", "reinit"), seed=s) for s in (1, 1, 2))
    assert same(a, b)
    assert same([r["masks"] for r in a], [r["masks"] for r in c])
    for arm in ("random", "reinit"):
        assert a[1]["controls"][arm]["result"] != c[1]["controls"][arm]["result"]


@pytest.mark.parametrize("seed", [0, 3])
def test_reinit_is_no_ticket_though_the_model_has_the_same_seed(seed):
    starts = []

    def train(model, masks, start, stop):
        starts.append(state_of(model)["4.weight"])

    find_ticket(partial(small, seed), train, 1, 0.0, controls=("reinit",), seed=seed)
    assert not torch.equal(starts[1], starts[2])


def test_the_callers_generators_are_left_alone():
    state = torch.random.get_rng_state()
    find_ticket(small, trained, 1, 0.4, 1, controls=("reinit", "random"))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": -1}, "rounds is a whole number, 0 or more, got -1"),
        ({"rounds": 1.5}, "rounds is a whole number"),
        ({"rewind_step": -1}, "rewind_step is a whole number"),
        ({"rate": 20}, "for 20 % write 0.2"),
        ({"output_rate": -1}, "between 0 and 1"),
        ({"rate": {"x": 0.2}}, "missing or unknown"),
        ({"controls": ("reinit", "lucky")}, "no control 'lucky': choose from reinit, random"),
        ({"seed": -1}, "seed is a whole number"),
        ({"build": lambda: nn.BatchNorm1d(3)}, "nothing to prune"),
    ],
)
def test_bad_arguments_are_refused_before_any_training(change, words):
    log = Log()
    with pytest.raises(ValueError, match=words):
        find_ticket(**{"build": small, "train": log, "rounds": 2, "rate": 0.2, **change})
    assert not log.calls


# ---- resuming


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("stop_at", range(8))
def test_a_search_that_was_interrupted_goes_on_and_ends_the_same(tmp_path, k, stop_at):
    settings = {"rounds": 3, "rate": 0.4, "rewind_step": k, "controls": ("random", "reinit"), "seed": 1}
    whole = find_ticket(small, Log(), **settings)
    with pytest.raises(KeyboardInterrupt):
        find_ticket(small, Log(stop_at=stop_at), **settings, folder=tmp_path)
    log = Log()
    assert same(find_ticket(small, log, **settings, folder=tmp_path), whole)
    assert len(log.calls) == 10 + bool(k) - stop_at  # nothing is trained twice
    log = Log()
    assert same(find_ticket(small, log, **settings, folder=tmp_path), whole) and not log.calls
    names = {path.name for path in tmp_path.iterdir()} - {".lock"}
    assert names == {"configuration.json", "start.pt.z", *(f"round-{r:02d}.pt.z" for r in range(4))}


def test_more_rounds_and_controls_may_be_asked_for_later(tmp_path):
    whole = find_ticket(small, Log(), 3, 0.4, controls=("reinit", "random"))
    plain = find_ticket(small, Log(), 2, 0.4)
    assert same(find_ticket(small, Log(), 2, 0.4, folder=tmp_path), plain)
    log = Log()
    assert same(find_ticket(small, log, 3, 0.4, controls=("reinit", "random"), folder=tmp_path), whole)
    assert len(log.calls) == 1 + 2 * 3
    log = Log()
    assert same(find_ticket(small, log, 2, 0.4, folder=tmp_path), plain) and not log.calls


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rate": 0.3}, r"rates.0.weight: 0.4 there, 0.3 now"),
        ({"output_rate": 0.1}, r"rates.5.weight: 0.2 there, 0.1 now"),
        ({"rewind_step": 1}, "rewind_step: 0 there, 1 now"),
        ({"seed": 3}, "seed: 0 there, 3 now"),
        ({"build": partial(small, 1)}, "first weights: "),
        ({"train": partial(trained, lr=0.01)}, "train.lr: 0.05 there, 0.01 now"),
        ({"train": partial(trained, lr=0.05, steps=7)}, "train.steps: 'absent' there, 7 now"),
        ({"train": trained}, "train.function: 'trained' there"),
    ],
)
def test_a_folder_of_another_configuration_is_refused(tmp_path, change, words):
    first = {"build": small, "train": partial(trained, lr=0.05), "rounds": 1, "rate": 0.4}
    find_ticket(**first, folder=tmp_path)
    kept = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=f"another configuration:\n(?s:.*){words}(?s:.*)another folder"):
        find_ticket(**{**first, **change}, folder=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_rounds_without_a_configuration_are_not_adopted(tmp_path):
    find_ticket(small, trained, 1, 0.4, folder=tmp_path)
    (tmp_path / "configuration.json").unlink()
    with pytest.raises(ValueError, match="no configuration.json"):
        find_ticket(small, trained, 1, 0.4, folder=tmp_path)
    (tmp_path / "configuration.json").write_text("{")
    with pytest.raises(ValueError, match="no JSON any more"):
        find_ticket(small, trained, 1, 0.4, folder=tmp_path)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" + data])
def test_a_damaged_round_is_named(tmp_path, damage):
    find_ticket(small, trained, 1, 0.4, folder=tmp_path)
    path = tmp_path / "round-01.pt.z"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"round-01.pt.z is damaged.*delete it"):
        find_ticket(small, trained, 1, 0.4, folder=tmp_path)


def test_a_file_cannot_bring_code_along(tmp_path):
    import zlib

    find_ticket(small, trained, 0, 0.4, folder=tmp_path)
    (tmp_path / "round-00.pt.z").write_bytes(zlib.compress(pickle.dumps(print, protocol=2)))
    with pytest.raises(ValueError, match="damaged"):
        find_ticket(small, trained, 0, 0.4, folder=tmp_path)


def test_results_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(TypeError, match="plain data"):
        find_ticket(small, odd_result, 1, 0.4, folder=tmp_path)
    assert not list(tmp_path.glob("round*")) and not list(tmp_path.glob(".unfinished*"))


def test_two_searches_do_not_write_to_one_folder(tmp_path):
    def train(model, masks, start, stop):
        with pytest.raises(RuntimeError, match="another search is writing"):
            find_ticket(small, trained, 1, 0.4, folder=tmp_path)
        return 1

    find_ticket(small, train, 0, 0.4, folder=tmp_path)


def test_a_configuration_is_described_by_content():
    a, b = torch.ones(3), torch.ones(3)
    assert ticket_folder.described(partial(trained, a)) == ticket_folder.described(partial(trained, b))
    assert ticket_folder.described(partial(trained, a)) != ticket_folder.described(partial(trained, 2 * a))
    assert ticket_folder.described(partial(trained, DIGITS)) != ticket_folder.described(
        partial(trained, DIGITS.subset(100))
    )
    text = json.dumps(
        ticket_folder.described(partial(train_and_test, data=DIGITS, lr=1e-3, schedule=None, dims=(1, 2)))
    )
    assert "train_and_test" in text and "0.001" in text and len(text) < 1500


# ---- several seeds


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SEARCH = {
    "build": small,
    "train": trained,
    "rounds": 2,
    "rate": 0.4,
    "rewind_step": 2,
    "controls": ("reinit", "random"),
}


def test_an_executor_gives_the_same_as_none_and_resumes(tmp_path, one_thread):
    alone = find_tickets([3, 0], **SEARCH)
    assert list(alone) == [3, 0] and alone[3][1]["result"] != alone[0][1]["result"]
    single = find_ticket(
        partial(small, seed=3), partial(trained, seed=3), 2, 0.4, 2, controls=("reinit", "random"), seed=3
    )
    assert same(alone[3], single)
    with processes(2) as pool:
        find_tickets([3], **{**SEARCH, "rounds": 1, "controls": ()}, executor=pool, folder=tmp_path)
        assert same(find_tickets([3, 0], **SEARCH, executor=pool, folder=tmp_path), alone)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-3"]
    assert same(find_tickets([3, 0], **SEARCH, folder=tmp_path), alone)  # and without: nothing is left to do


class Inline(concurrent.futures.Executor):
    """Runs at once, counts, and may break down; everything goes through pickle as on the way to another process."""

    def __init__(self, most=10**9):
        self.count, self.most = 0, most

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        future = concurrent.futures.Future()
        try:
            if self.count > self.most:
                raise concurrent.futures.BrokenExecutor("gone")
            fn, args = pickle.loads(pickle.dumps((fn, args)))
            future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("most", range(0, 16, 3))
def test_an_executor_that_breaks_down_loses_nothing_that_was_done(tmp_path, most):
    with pytest.raises(concurrent.futures.BrokenExecutor):
        find_tickets([0, 1], **SEARCH, executor=Inline(most), folder=tmp_path)
    again = Inline()
    assert same(find_tickets([0, 1], **SEARCH, executor=again, folder=tmp_path), find_tickets([0, 1], **SEARCH))
    assert again.count == 2 * (1 + 3 + 4) - most


def test_one_training_that_fails_ends_the_search_and_keeps_the_others(tmp_path):
    with pytest.raises(ZeroDivisionError, match="seed 1 fails"):
        find_tickets([0, 1], small, failing, 1, 0.4, executor=Inline(), folder=tmp_path)
    assert (tmp_path / "seed-1" / "round-00.pt.z").exists() and not (tmp_path / "seed-1" / "round-01.pt.z").exists()


def test_results_that_cannot_travel_are_refused():
    with pytest.raises(TypeError, match="plain data"):
        find_tickets([0], small, odd_result, 1, 0.4, executor=Inline())


def test_seeds_are_different_whole_numbers():
    for seeds, words in (([0, 0], "not all different"), ([-1], "a seed is a whole number"), ([0.5], "whole number")):
        with pytest.raises(ValueError, match=words):
            find_tickets(seeds, small, trained, 1, 0.4)
    assert find_tickets([], small, trained, 1, 0.4) == {}


def test_a_dask_client_is_an_executor_too(one_thread):
    distributed = pytest.importorskip(
        "distributed", reason='needs dask.distributed: pip install "pruning-course[cluster]"'
    )
    arguments = {
        "build": partial(build, "lenet300", DIGITS.subset(100)),
        "train": partial(train_and_test, data="digits", epochs=1),
        "rounds": 1,
        "rate": 0.4,
        "controls": ("random",),
    }
    with (
        distributed.LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = find_tickets([0, 1], **arguments, executor=client.get_executor())
    assert same(there, find_tickets([0, 1], **arguments))


# ---- what it is all for


def test_a_ticket_beats_a_random_mask_where_few_weights_are_left():
    train = partial(train_and_test, data="digits", epochs=12, lr=2e-3, batch_size=60, every=19)
    records = find_ticket(
        partial(build, "lenet300", DIGITS, seed=0), train, 5, 0.45, controls=("random",), output_rate=0.3
    )
    last = records[-1]
    assert 0.04 < last["remaining"] < 0.07
    assert records[0]["result"]["accuracy"] > 93
    assert last["result"]["accuracy"] > last["controls"]["random"]["result"]["accuracy"] + 2
    assert last["result"]["loss"][0] < last["controls"]["random"]["result"]["loss"][0]  # and it learns faster
    assert all(isinstance(value, float | int) for value in last["result"]["steps"] + last["result"]["validation"])
    assert lottery.early_stop(last["result"]["validation_loss"], 19) <= 12 * 19
