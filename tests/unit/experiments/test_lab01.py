"""Lab 01's runs: its own experiments by the library."""

import pytest
import torch

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import lab01
from course_lib.pruning.weights import local_masks, magnitude, prunable


@pytest.fixture(scope="module")
def found():
    torch.set_num_threads(1)
    data = load("digits").subset(300)
    return lab01.experiments_of(data, 0, {"dense_epochs": 12, "budget": 3})


@pytest.mark.long
def test_all_arms_at_all_sparsities(found):
    untrained = ("magnitude", "random", "global")
    assert found["untrained"].keys() == {
        *untrained,
        *(f"{way}, recalibrated" for way in untrained),
    }
    for part, sparsities in (
        ("untrained", lab01.UNTRAINED),
        ("trained", lab01.TRAINED),
        ("structured", lab01.STRUCTURED),
    ):
        assert {len(row) for row in found[part].values()} == {len(sparsities)}
    assert found["trained"].keys() == {"fine-tuned", "iterative", "random"}
    assert found["structured"].keys() == {*lab01.GRANULARITIES, "random filter"}


def test_what_is_repaired_comes_back(found):
    at = lab01.UNTRAINED.index(0.7)
    one, repaired, chance = (
        found["untrained"][way][at]
        for way in ("magnitude", "magnitude, recalibrated", "random, recalibrated")
    )
    assert found["dense"] > 85 and repaired > one + 20 and repaired > chance + 20


def test_masks_are_held_while_it_trains():
    data = load("digits").subset(200)
    network = lab01.dense(data, 0, epochs=1)
    masks = local_masks(magnitude(prunable(network)), 0.9)
    trained = lab01.masked(network, data, 0, masks, 1)
    for name, w in prunable(trained).items():
        assert not w[~masks[name]].any() and not torch.equal(w, prunable(network)[name])
    chance = lab01.at_random(network, data, 0, 1, sparsity=0.5)
    assert all(
        float((w == 0).double().mean()) == pytest.approx(0.5, abs=0.01)
        for w in prunable(chance).values()
    )


@pytest.mark.parametrize("name", lab01.SETTINGS)
def test_the_shipped_results_are_of_these_settings(name):
    result = experiments.read(f"lab01_pruning_{name}")
    assert result["settings"] == lab01.SETTINGS[name] and len(result["seeds"]) == 5
    for run in result["seeds"]:
        assert {len(row) for row in run["trained"].values()} == {len(lab01.TRAINED)}
    assert experiments.took(f"lab01_pruning_{name}") is not None
