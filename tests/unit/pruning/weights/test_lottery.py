"""Lottery tickets: exact nested masks, rewinding that copies, controls that differ in
one thing, a search that resumes.
"""

import copy
import functools
import math
from functools import partial

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from course_lib.parallel import processes
from course_lib.pruning.weights import dense_masks, prunable, remaining
from course_lib.pruning.weights.lottery import (
    early_stop,
    find_ticket,
    find_tickets,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
)
from course_lib.training import fit
from unit.pruning.weights.trainings import DIGITS, Log, counts, same, small, trained


@st.composite
def layers(draw):
    """Weights with many ties, and masks that have pruned some of them."""
    weights, masks = {}, {}
    for i in range(draw(st.integers(1, 4))):
        shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
        n = math.prod(shape)
        values = st.integers(-3, 3) | st.floats(-2, 2, width=32)
        drawn = draw(st.lists(values, min_size=n, max_size=n))
        weights[f"layer{i}"] = torch.tensor(drawn, dtype=torch.float32).view(shape)
        alive = draw(st.lists(st.booleans(), min_size=n, max_size=n))
        masks[f"layer{i}"] = torch.tensor(alive).view(shape)
    return weights, masks


@settings(deadline=None)
@given(layers(), st.floats(0, 1), st.none() | st.floats(0, 1))
def test_shrink_prunes_a_share_of_the_survivors_the_smallest_first(drawn, rate, output_rate):
    weights, masks = drawn
    for name, mask in masks.items():  # what was pruned has grown, or is no number
        weights[name][~mask] = torch.nan
    before = copy.deepcopy(masks)
    new = shrink(weights, masks, rate, output_rate)
    assert same(before, masks) and list(new) == list(weights)
    for i, name in enumerate(weights):
        share = rate if i < len(weights) - 1 else rate / 2 if output_rate is None else output_rate
        size, alive = weights[name].abs().flatten().tolist(), masks[name].flatten().tolist()
        # ties: the lower index first
        survivors = sorted((w, j) for j, w in enumerate(size) if alive[j])
        gone = {j for _, j in survivors[: round(share * len(survivors))]}
        assert new[name].flatten().tolist() == [a and j not in gone for j, a in enumerate(alive)]
        assert new[name].dtype == torch.bool and new[name].shape == weights[name].shape


def pruned(state, masks):
    return {n: v.masked_fill(~masks[n], 0) if n in masks else v for n, v in state.items()}


def test_rewind_puts_back_parameters_and_buffers_and_prunes():
    model = small()
    state, identities = copy.deepcopy(model.state_dict()), [id(p) for p in model.parameters()]
    saved = copy.deepcopy(state)
    masks = {name: torch.rand(p.shape) > 0.5 for name, p in prunable(model).items()}
    for _ in range(2):  # the second time shows whether the first one handed out the saved tensors
        fit(model, DIGITS.subset(60).train, epochs=1, masks=masks, progress=False)
        assert not torch.equal(model.state_dict()["1.running_mean"], saved["1.running_mean"])
        rewind(model, state, masks)
        assert same(dict(state), dict(saved))
        assert same(dict(model.state_dict()), pruned(saved, masks))
        assert [id(p) for p in model.parameters()] == identities
        assert all(p.grad is None for p in model.parameters())


# ---- controls


@settings(deadline=None)
@given(layers(), st.integers(0, 2**40), st.floats(0, 1))
def test_a_random_ticket_has_the_counts_of_each_layer_and_is_nested_for_equal_seeds(
    drawn, seed, rate
):
    weights, masks = drawn
    before, global_state = copy.deepcopy(masks), torch.random.get_rng_state()
    later = shrink(weights, masks, rate)
    new, fewer = (random_ticket(m, torch.Generator().manual_seed(seed)) for m in (masks, later))
    assert counts(new) == counts(masks) and counts(fewer) == counts(later) and same(masks, before)
    for name, mask in new.items():
        assert mask.shape == masks[name].shape and (fewer[name] <= mask).all()
    assert torch.equal(torch.random.get_rng_state(), global_state)


def test_a_random_ticket_may_be_anywhere_with_equal_chance():
    masks, generator = {"a": torch.arange(6) < 2}, torch.Generator().manual_seed(0)
    total = sum(random_ticket(masks, generator)["a"].float() for _ in range(3000))
    assert (total - 1000).abs().max() < 6 * math.sqrt(3000 * (1 / 3) * (2 / 3))


def test_reinitialise_is_reset_parameters_in_order_from_the_seed():
    model, oracle = small(5), small(6)
    fit(model, DIGITS.subset(60).train, epochs=1, progress=False)
    identities = [id(p) for p in model.parameters()]
    masks = {name: torch.rand(p.shape) > 0.5 for name, p in prunable(model).items()}
    before = torch.random.get_rng_state()
    reinitialise(model, masks, 11)
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(11)
        for module in oracle:
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
    # with fresh running statistics too
    assert same(dict(model.state_dict()), pruned(oracle.state_dict(), masks))
    assert [id(p) for p in model.parameters()] == identities


@given(st.lists(st.integers(0, 5) | st.just(math.nan), min_size=1), st.integers(1, 100))
def test_early_stop_is_the_first_minimum(losses, every):
    usable = [loss for loss in losses if loss == loss]
    assume(usable)
    assert early_stop(losses, every) == every * (1 + losses.index(min(usable)))


# ---- the search


@pytest.mark.parametrize("k", [0, 2])
def test_the_search_is_imp_with_rewinding(k):
    log = Log()
    records = find_ticket(small, log, 3, 0.4, k)
    pre = 1 if k else 0
    assert log.calls == [(0, k)] * pre + [(k, None)] * 4
    assert [list(r) for r in records] == [["round", "masks", "remaining", "result"]] * 4
    assert [(r["round"], int(r["result"]["start"])) for r in records] == [(i, k) for i in range(4)]
    model = small()
    assert same(records[0]["masks"], dense_masks(model)) and records[0]["remaining"] == 1
    w_k = log.after[0] if k else model.state_dict()
    for r, record in enumerate(records):
        assert record["remaining"] == remaining(record["masks"])
        # every round starts from w_k
        assert same(dict(log.before[pre + r]), pruned(w_k, record["masks"]))
        if r:  # and its masks come from what the round before has trained
            earlier = records[r - 1]["masks"]
            weights = {name: log.after[pre + r - 1][name] for name in earlier}
            assert same(record["masks"], shrink(weights, earlier, 0.4))


def test_a_training_that_writes_into_its_masks_does_not_change_the_records():
    def train(model, masks, start, stop):
        for mask in masks.values():
            mask.zero_()

    left = [r["remaining"] for r in find_ticket(small, train, 1, 0.5)]
    assert left == [1, pytest.approx(0.5, abs=0.05)]


@pytest.mark.parametrize("k", [0, 2])
def test_each_control_differs_from_the_ticket_in_one_thing(k):
    log, global_state = Log(), torch.random.get_rng_state()
    records = find_tickets([7], small, log, 2, 0.4, k, controls=("reinit", "random"))[7]
    assert torch.equal(torch.random.get_rng_state(), global_state)
    assert [list(r["controls"]) for r in records] == [[], *[["reinit", "random"]] * 2]
    pre = 1 if k else 0
    assert log.calls[pre:] == [(k, None)] * 3 + [(0, None)] * 2 + [(k, None)] * 2
    ticket, reinit, second, random = (log.before[pre + i] for i in (1, 3, 4, 5))
    _, record, later = records
    masks, elsewhere = record["masks"], record["controls"]["random"]["masks"]
    assert same(record["controls"]["reinit"]["masks"], masks)
    assert counts(elsewhere) == counts(masks) and not same(elsewhere, masks)
    w_k = log.after[0] if k else small(7).state_dict()
    for name, mask in masks.items():
        assert (later["controls"]["random"]["masks"][name] <= elsewhere[name]).all()
        # the same weights, under another mask
        assert torch.equal(random[name], w_k[name] * elsewhere[name])
        # other weights
        assert torch.equal(reinit[name] != 0, mask) and (reinit[name] != ticket[name])[mask].all()
        # one initialisation for all rounds
        assert torch.equal(second[name], reinit[name] * later["masks"][name])
    assert (reinit["1.running_mean"] == 0).all()


# ---- each training is on disk as soon as it is done, and none is done twice

SEARCH = {"seeds": [3, 0], "build": small, "rounds": 2, "rate": 0.4, "rewind_step": 2}
SEARCH["controls"] = ("reinit", "random")
DONE = 2 * (1 + 3 + 4)  # trainings


@functools.cache
def uninterrupted():
    return find_tickets(**SEARCH, train=Log())


@pytest.mark.parametrize("stop_at", range(0, DONE, 3))
def test_a_search_that_was_interrupted_goes_on_and_ends_the_same(tmp_path, stop_at):
    with pytest.raises(KeyboardInterrupt):
        find_tickets(**SEARCH, train=Log(stop_at), folder=tmp_path)
    log = Log()
    assert same(find_tickets(**SEARCH, train=log, folder=tmp_path), uninterrupted())
    assert len(log.calls) == DONE - stop_at  # nothing is trained twice
    log = Log()
    fewer = {**SEARCH, "rounds": 1, "controls": (), "seeds": [0]}  # and fewer, or more, later
    for record in find_tickets(**fewer, train=log, folder=tmp_path)[0]:
        assert same(record["result"], uninterrupted()[0][record["round"]]["result"])
    assert not log.calls
    find_tickets(**{**SEARCH, "rounds": 3}, train=log, folder=tmp_path)
    assert len(log.calls) == 2 * 3


def other_start(seed):
    return small(seed + 1)


CHANGES = [
    {"rate": 0.3},
    {"rewind_step": 1},
    {"seeds": [4]},
    {"build": other_start},
    {"train": partial(trained, lr=0.01)},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_what_is_kept_for_other_arguments_is_not_taken(tmp_path, change):
    first = {**SEARCH, "seeds": [3], "rounds": 1, "controls": (), "train": trained}
    find_tickets(**first, folder=tmp_path)
    changed = {**first, **change}
    assert same(find_tickets(**changed, folder=tmp_path), find_tickets(**changed))


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.long
def test_an_executor_gives_the_same_as_none_and_resumes(tmp_path, one_thread):
    settings = {**SEARCH, "train": trained}
    alone = find_tickets(**settings)
    assert list(alone) == [3, 0] and alone[3][1]["result"] != alone[0][1]["result"]
    with processes(2) as pool:
        assert same(find_tickets(**settings, executor=pool, folder=tmp_path), alone)
    assert same(find_tickets(**settings, folder=tmp_path), alone)


def test_a_dask_client_is_an_executor_too(one_thread):
    distributed = pytest.importorskip(
        "distributed", reason='needs dask.distributed: pip install "pruning-course[cluster]"'
    )
    settings = {**SEARCH, "train": trained, "rounds": 1, "controls": ("random",)}
    with (
        distributed.LocalCluster(
            1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = find_tickets(**settings, executor=client.get_executor())
    assert same(there, find_tickets(**settings))
