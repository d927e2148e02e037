"""A search with controls and several seeds: each training is on disk as soon as it is
done, and none is done twice.
"""

import concurrent.futures
import functools
import pickle
import threading
from functools import partial

import pytest
import torch

from course_lib.models import build
from course_lib.parallel import processes
from course_lib.pruning.weights.lottery import (
    find_ticket,
    find_tickets,
)
from course_lib.training import train_and_test
from unit.pruning.weights.trainings import (
    DIGITS,
    Log,
    counts,
    odd_result,
    same,
    small,
    state_of,
    trained,
)


def search(build=small, train=trained, rounds=2, rate=0.4, rewind_step=0, *, seed=0, **options):
    """The records of one seed."""
    return find_tickets([seed], build, train, rounds, rate, rewind_step, **options)[seed]


def one_start(seed):
    """The same first weights whatever the seed."""
    return small()


def other_start(seed):
    """Other first weights than those of :func:`small`."""
    return small(seed + 1)


def one_order(model, masks, start, stop, seed):
    """The same training whatever the seed."""
    return trained(model, masks, start, stop)


@pytest.mark.parametrize("k", [0, 2])
def test_each_control_differs_from_the_ticket_in_one_thing(k):
    log = Log()
    records = search(small, log, 2, 0.4, k, controls=("reinit", "random"), seed=7)
    assert [list(r["controls"]) for r in records] == [
        [],
        ["reinit", "random"],
        ["reinit", "random"],
    ]
    pre = 1 if k else 0
    assert log.calls[pre:] == [(k, None)] * 3 + [(0, None), (k, None)] * 2
    ticket, reinit, random = (log.before[pre + i] for i in (1, 3, 4))
    second = log.before[pre + 5]  # reinit of the next round
    record, later = records[1], records[2]
    masks, elsewhere = record["masks"], record["controls"]["random"]["masks"]
    assert same(record["controls"]["reinit"]["masks"], masks)
    assert counts(elsewhere) == counts(masks) and not same(elsewhere, masks)
    assert all(
        (later["controls"]["random"]["masks"][name] <= elsewhere[name]).all() for name in masks
    )
    w_k = log.after[0] if k else state_of(small(7))
    for name, mask in masks.items():
        # the same weights, under another mask
        assert torch.equal(random[name], w_k[name] * elsewhere[name])
        # other weights
        assert torch.equal(reinit[name] != 0, mask) and (reinit[name] != ticket[name])[mask].all()
        # one initialisation for all rounds
        assert torch.equal(second[name], reinit[name] * later["masks"][name])
    assert (reinit["1.running_mean"] == 0).all()
    assert record["controls"]["random"]["result"] == {"loss": pytest.approx(0, abs=1e9), "start": k}


def test_the_controls_follow_the_seed_and_the_ticket_does_not():
    a, b, c = (
        search(one_start, one_order, 1, 0.4, controls=("random", "reinit"), seed=s)
        for s in (1, 1, 2)
    )
    assert same(a, b)
    assert same([r["masks"] for r in a], [r["masks"] for r in c])
    for arm in ("random", "reinit"):
        assert a[1]["controls"][arm]["result"] != c[1]["controls"][arm]["result"]


@pytest.mark.parametrize("seed", [0, 3])
def test_reinit_is_no_ticket_though_the_model_has_the_same_seed(seed):
    starts = []

    def train(model, masks, start, stop, seed):
        starts.append(state_of(model)["4.weight"])

    search(small, train, 1, 0.0, controls="reinit", seed=seed)
    assert not torch.equal(starts[1], starts[2])


def test_the_callers_generators_are_left_alone():
    state = torch.random.get_rng_state()
    search(small, trained, 1, 0.4, 1, controls=("reinit", "random"))
    assert torch.equal(torch.random.get_rng_state(), state)


# ---- resuming


RESUMED = {"rounds": 3, "rate": 0.4, "controls": ("random", "reinit"), "seed": 1}


@functools.cache
def uninterrupted(k):
    return search(small, Log(), rewind_step=k, **RESUMED)


@pytest.mark.parametrize("k", [0, 2])
@pytest.mark.parametrize("stop_at", range(8))
def test_a_search_that_was_interrupted_goes_on_and_ends_the_same(tmp_path, k, stop_at):
    settings = {**RESUMED, "rewind_step": k}
    whole = uninterrupted(k)
    with pytest.raises(KeyboardInterrupt):
        search(small, Log(stop_at=stop_at), **settings, folder=tmp_path)
    log = Log()
    assert same(search(small, log, **settings, folder=tmp_path), whole)
    assert len(log.calls) == 10 + bool(k) - stop_at  # nothing is trained twice
    log = Log()
    assert same(search(small, log, **settings, folder=tmp_path), whole) and not log.calls


def test_more_rounds_and_controls_may_be_asked_for_later(tmp_path):
    whole = search(small, Log(), 3, 0.4, controls=("reinit", "random"))
    plain = search(small, Log(), 2, 0.4)
    assert same(search(small, Log(), 2, 0.4, folder=tmp_path), plain)
    log = Log()
    assert same(search(small, log, 3, 0.4, controls=("reinit", "random"), folder=tmp_path), whole)
    assert len(log.calls) == 1 + 2 * 3
    log = Log()
    assert same(search(small, log, 2, 0.4, folder=tmp_path), plain) and not log.calls


@pytest.mark.parametrize(
    "change",
    [
        {"rate": 0.3},
        {"rewind_step": 1},
        {"seed": 3},
        {"build": other_start},
        {"train": partial(trained, lr=0.01)},
        {"train": one_order},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_configuration_is_another_search(tmp_path, change):
    first = {"build": small, "train": partial(trained, lr=0.05), "rounds": 1}
    search(**first, folder=tmp_path)
    again = {**first, **change}
    assert same(search(**again, folder=tmp_path), search(**again))


def test_results_that_are_no_plain_data_are_refused(tmp_path):
    for where in ({"folder": tmp_path}, {"executor": Inline()}):
        with pytest.raises(TypeError, match="plain data"):
            search(small, odd_result, **where)


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


@pytest.mark.long
def test_an_executor_gives_the_same_as_none_and_resumes(tmp_path, one_thread):
    alone = find_tickets([3, 0], **SEARCH)
    assert list(alone) == [3, 0] and alone[3][1]["result"] != alone[0][1]["result"]
    # the method as it is written
    single = find_ticket(partial(small, seed=3), partial(trained, seed=3), 2, 0.4, 2)
    assert same(
        [{k: v for k, v in record.items() if k != "controls"} for record in alone[3]], single
    )
    with processes(2) as pool:
        find_tickets([3], **{**SEARCH, "rounds": 1, "controls": ()}, executor=pool, folder=tmp_path)
        assert same(find_tickets([3, 0], **SEARCH, executor=pool, folder=tmp_path), alone)
    # and without: nothing is left to do
    assert same(find_tickets([3, 0], **SEARCH, folder=tmp_path), alone)


class Inline(concurrent.futures.Executor):
    """Runs at once, counts, and may break down; everything goes through pickle as on
    the way to another process.
    """

    def __init__(self, most=10**9):
        self.count, self.most = 0, most
        self.one = threading.Lock()  # torch's generator is one for all

    def submit(self, fn, /, *args, **kwargs):
        with self.one:
            return self.run(fn, *args, **kwargs)

    def run(self, fn, /, *args, **kwargs):
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


@functools.cache
def both_seeds():
    return find_tickets([0, 1], **SEARCH)


@pytest.mark.parametrize("most", range(0, 10, 3))
def test_an_executor_that_breaks_down_loses_nothing_that_was_done(tmp_path, most):
    with pytest.raises(concurrent.futures.BrokenExecutor):
        find_tickets([0, 1], **SEARCH, executor=Inline(most), folder=tmp_path)
    kept = len(list(tmp_path.rglob("output.pkl")))
    assert kept >= most
    again = find_tickets([0, 1], **SEARCH, executor=Inline(), folder=tmp_path)
    assert same(again, both_seeds())
    assert len(list(tmp_path.rglob("output.pkl"))) == 2 * (1 + 3 + 4)


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
        distributed.LocalCluster(
            1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = find_tickets([0, 1], **arguments, executor=client.get_executor())
    assert same(there, find_tickets([0, 1], **arguments))
