"""Lab 01's experiments, on one network that is trained for a short time."""

import lab01_results as make
import pandas as pd
import pytest
import torch

from course_lib.data.images import load
from course_lib.experiments import by_seed, common, lab01
from course_lib.pruning import weights
from unit.experiments.stored import assert_like_stored, remade

LABELS = ("method", "sparsity", "batch_norm", "granularity", "steps")


@pytest.fixture(scope="module")
def data():
    return load("digits").subset(300)


@pytest.fixture(scope="module")
def dense(data):
    return lab01.train_dense(data, [0], 12)


def share(network):
    return {name: float((w == 0).double().mean()) for name, w in weights.prunable(network).items()}


def test_recalibration_repairs_what_magnitude_breaks_and_not_what_chance_breaks(dense, data):
    methods = {"magnitude": make.by_layer, "random": make.by_layer}
    found = [lab01.prune_once(dense, data, methods, [0.7], repair=on) for on in (False, True)]
    cut, repaired = (table.set_index("method").accuracy for table in found)
    assert cut["dense"] > 85 and repaired["magnitude"] > cut["magnitude"] + 20
    assert repaired["magnitude"] > repaired["random"] + 20
    assert share(dense.network[0]) == dict.fromkeys(share(dense.network[0]), 0.0), "copies"


def test_masks_are_held_while_it_trains(dense, data):
    found = lab01.prune_once(dense, data, {"random": make.by_layer}, [0.5], epochs=1)
    model = found.network.iloc[-1]
    assert all(part == pytest.approx(0.5, abs=0.01) for part in share(model).values())
    assert not torch.equal(model.fc.bias, dense.network[0].fc.bias), "it was trained"


def test_all_layers_together_share_one_threshold(dense):
    found = lab01.prune_each_layer(dense, make.together, 0.9)
    by_layer = found.pivot(index="layer", columns="method", values="pruned (%)")
    assert (by_layer["each layer"] == 90).all()
    assert by_layer["global"]["conv4"] > 90 > by_layer["global"]["conv1"]


def test_a_scaled_layer_is_the_same_function_and_is_pruned_first(dense, data):
    scaled = lab01.scale_layer(dense, data, "conv3.weight", 0.1)
    assert scaled.accuracy[0] > dense.accuracy[0] - 3
    found = lab01.prune_once(scaled, data, {"global": make.together}, [0.9])
    assert share(found.network.iloc[-1])["conv3.weight"] > 0.99


def test_the_map_has_every_layer_and_its_networks_are_recalibrated(dense, data):
    found = lab01.map_sensitivity(dense, data, weights.sensitivity, [0.1]).set_index("layer")
    assert list(found.index) == ["conv1", "conv2", "conv3", "conv4", "fc"]
    assert found.accuracy.min() > dense.accuracy[0] - 5


def test_sparsities_are_tried_layer_by_layer(dense, data, monkeypatch):
    monkeypatch.setattr(lab01, "TRIED", 1)
    none = dict.fromkeys(("conv1", "conv2", "conv3", "conv4", "fc"), 0.0)
    choices = {"dense": none, "half of conv4": none | {"conv4": 0.5}, "all": dict.fromkeys(none, 1)}
    found = lab01.try_sparsities(dense, data, choices).set_index("choice")
    assert found["pruned (%)"].tolist() == pytest.approx([0, 50 * 36864 / 65440, 100])
    assert found.accuracy["dense"] > 80 > 25 > found.accuracy["all"]
    assert share(dense.network[0])["conv4.weight"] == 0, "a copy is pruned"


def test_restarts_begin_the_learning_rate_again_in_equal_epochs(dense, data):
    def run(**how):
        cut = lab01.prune_once(dense, data, {"random": make.by_layer}, [0.5], epochs=2, **how)
        return cut.network.iloc[-1].fc.weight.detach()

    assert not torch.equal(run(), run(restarts=2))


def test_within_a_point_ends_where_the_first_mean_is_lower():
    def rows(*means):
        return pd.DataFrame({"sparsity": (0.5, 0.7, 0.8, 0.9), "accuracy": means})

    assert lab01.within_a_point(rows(99, 98, 90, 98), 99) == 0.7
    assert lab01.within_a_point(rows(50, 99, 99, 99), 99) == 0


def test_costs_are_of_the_first_network_and_accuracy_of_all(dense, data):
    cut = lab01.prune_once(dense, data, {"global": make.together}, [0.9]).iloc[1:]
    costs = common.costs_and_tests({"dense": dense.network, "global": cut.network}, data)
    costs = costs.set_index("method")
    assert costs.bits["global"] < 0.2 * costs.bits["dense"]
    assert costs.macs["global"] < 0.3 * costs.macs["dense"] and costs.faster["dense"] == 1
    left = lab01.share_of_dense(costs.reset_index())
    assert (left[left.method == "dense"]["% of dense"] == 100).all() and len(left) == 6


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (make.one_seed, "lab01_pruning_digits"),
        pytest.param(make.long_run, "lab01_long_run_digits", marks=pytest.mark.long),
    ],
)
def test_a_remake_has_the_stored_columns(run, name, tmp_path):
    small = make.LONG | {"train": 100, "dense_epochs": 1, "budget": 2, "epochs": [6]}
    made = remade(by_seed("", small, 1, run, data="digits"), tmp_path)
    assert_like_stored(name, made.tables, labels=LABELS)
    if name == "lab01_pruning_digits":  # one function makes both
        assert_like_stored("lab01_pruning_mnist", made.tables, labels=LABELS)
