"""Lab 02's runs: forecasts beside the truth, and the orders they make."""

import copy

import lab02_results as make
import numpy as np
import pandas as pd
import pytest
import torch

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import by_seed, common, lab02
from course_lib.models import build
from course_lib.pruning.weights import prunable
from course_lib.show import drawings
from course_lib.show.output import alt_of
from unit.experiments.stored import assert_like_stored, remade

RESULT = "lab02_criteria_digits"


@pytest.fixture(scope="module")
def trained():
    data = load("digits").subset(300)
    return data, lab02.trained(build("lenet300", data, seed=0), data, 0, 6)


@pytest.fixture(scope="module")
def single(trained):
    data, model = trained
    return pd.DataFrame(lab02.single_weights(model, *lab02.sample_of(data.train, 64), 45, 0))


def test_the_forecast_of_single_weights_is_the_truth(trained, single):
    data, model = trained
    before = copy.deepcopy(model.state_dict())
    again = lab02.single_weights(model, *lab02.sample_of(data.train, 64), 45, 0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    pd.testing.assert_frame_equal(pd.DataFrame(again), single)
    assert set(single.method) == set(lab02.CRITERIA) and single.weight.nunique() == 45
    rho = lab02.rank_correlations(single.assign(seed=0)).set_index("method")
    assert rho.signed["signed forecast"] > 0.9 and rho["size"]["magnitude"] < 0.9


def test_a_change_is_that_of_the_loss(trained):
    data, model = trained
    x, y = lab02.sample_of(data.train, 32)
    change = lab02.single_weights(model, x, y, 3, 5)[-1]["change"]
    other, generator = copy.deepcopy(model).double(), torch.Generator().manual_seed(5)
    for w in prunable(other).values():
        at = int(torch.randint(w.numel(), (1,), generator=generator))
    w.data.view(-1)[at] = 0
    right = lab02.mean_loss(other, x.double(), y) - lab02.mean_loss(
        copy.deepcopy(model).double(), x.double(), y
    )
    assert change == pytest.approx(right, rel=1e-6)


def test_orders_and_rounds(trained):
    data, model = trained

    def accuracy(rows):
        return [row["accuracy"] for row in rows]

    once, drawn = (
        accuracy(make.in_rounds(model, data, method, 64, 0, 1))
        for method in ("magnitude", "random")
    )
    assert once[1] > drawn[1]
    # nothing is trained: the same weights are the smallest in every round
    assert accuracy(make.in_rounds(model, data, "magnitude", 64, 0, 12)) == once
    pruned, validation = lab02.trained_between(
        model, data, lab02.CRITERIA["Taylor"], (0.5, 0.9), 64, 1, 0
    )
    assert len(validation) == 2 and validation[-1] > 20
    costs = common.costs_and_tests({"Taylor": [pruned, pruned]}, data)
    assert costs.seed.tolist() == [0, 1] and costs.test.nunique() == 1
    assert costs.macs[0] == pytest.approx(0.1 * 50_200, abs=1) and costs.bits[0] < 8 * 50_200


def test_cross_terms_are_the_hessians(trained):
    data, model = trained
    found = pd.DataFrame(lab02.add_up(model, *lab02.sample_of(data.train, 64), (0.1,)))
    by = found.set_index(["order", "method"]).change
    small = by["magnitude"]
    assert small["with all cross terms"] == pytest.approx(small["true"], abs=1e-2)
    assert by["signed forecast"]["sum of forecasts"] < 0 < by["signed forecast"]["true"]


def test_the_rungs_of_the_ladder(trained):
    data, model = trained
    accuracy = {
        method: lab02.on_the_ladder(model, data, method, (0.0, 0.5), 64, 0)
        for method in lab02.LADDER
    }
    dense = {rows[0]["accuracy"] for rows in accuracy.values()}
    assert len(dense) == 1
    assert accuracy["full matrix (OBS)"][1]["accuracy"] > accuracy["random"][1]["accuracy"]


def test_networks_trained_at_the_same_time_are_those_trained_alone():
    data = load("digits").subset(200)
    for seed, net in enumerate(lab02.dense_networks(data, 3, 2)):
        alone = lab02.trained(build("lenet300", data, seed=seed), data, seed, 2)
        for a, b in zip(net.parameters(), alone.parameters(), strict=True):
            assert torch.equal(a, b)


def test_only_the_proximal_step_makes_zeros():
    data = load("digits").subset(300)
    found = {
        how: lab02.with_l1(build("lenet300", data, seed=0), data, 0, how, 1e-3, 10, every=3)
        for how in ("proximal", "subgradient", "L2")
    }
    assert found["subgradient"]["zeros"] == found["L2"]["zeros"] == 0
    assert found["proximal"]["zeros"] > 1
    assert found["subgradient"]["small"] > found["L2"]["small"]


def test_magnitude_gets_as_many_zeros_as_asked_for():
    data = load("digits").subset(300)
    net = build("lenet300", data, seed=0)
    assert make.with_magnitude(net, data, 0, "magnitude", 0.9, 4)["zeros"] == pytest.approx(90)


def test_figures_say_what_they_show(single):
    single = single.assign(seed=0)
    figure = lab02.forecast_and_truth(single)
    assert "45 points" in alt_of(figure) and "magnitude" in alt_of(figure)
    assert "true loss" in alt_of(drawings.forecast())


@pytest.mark.long
def test_a_remake_has_the_stored_tables(tmp_path):
    tiny = {"images": 60, "epochs": 1, "samples": 4, "retrain": 1, "l1_epochs": 1}
    found = remade(by_seed("", tiny, 1, make.one_seed, data="digits"), tmp_path)
    assert found.settings == tiny
    labels = ("procedure", "method", "sparsity", "strength")
    assert_like_stored(RESULT, found.tables, labels=labels)


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_stored_results_are_whole(name):
    pruned = experiments.read(f"lab02_criteria_{name}/pruned")
    assert (pruned.groupby("seed").size() == 1 + 2 * 7 * 4 + 4 * 4 + 7 * 6).all()
    assert not pruned.accuracy.isna().any()
    assert np.isfinite(experiments.read(f"lab02_criteria_{name}/penalties").accuracy).all()
