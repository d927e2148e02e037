"""Lab 09's runs: depth on demand, and subnetworks of heads and feed-forward parts."""

import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab09
from course_lib.pruning.layers import take_layers

SHORT = {"steps": 4, "lr": 3e-4}


@pytest.fixture(scope="module", autouse=True)
def few_texts():
    torch.set_num_threads(1)
    texts, measured = dict(lab09.TUNE), dict(lab09.MEASURED)
    lab09.TUNE |= {"texts": 200, "steps": 3}
    lab09.LONGER["domain"] |= {"steps": 3}
    lab09.MEASURED |= {"validation": 60, "test": 60}
    lab09.texts.cache_clear()
    yield
    lab09.TUNE |= texts
    lab09.LONGER["domain"] |= {"steps": 800}
    lab09.MEASURED |= measured
    lab09.texts.cache_clear()


def test_losses_are_one_for_each_text():
    model, batch = lab09.start("domain", 1), lab09.batches("validation", "domain", 7)[0]
    found = lab09.losses(model, batch)
    assert found.shape == (7,)
    with torch.no_grad():
        assert torch.allclose(found.mean(), model(**batch).loss)


def test_every_fine_tuning_starts_from_one_checkpoint_with_a_classifier_of_its_seed():
    one, other, again = lab09.start("domain", 0), lab09.start("domain", 1), lab09.start("domain", 0)
    changed = {
        n
        for (n, p), q in zip(one.named_parameters(), other.parameters(), strict=True)
        if not torch.equal(p, q)
    }
    assert changed == {"classifier.weight"} and torch.equal(
        one.classifier.weight, again.classifier.weight
    )
    assert one.classifier.weight.shape[0] == one.config.num_labels == 3
    assert lab09.start("negated", 0).classifier.weight.shape[0] == 2


def test_training_with_layerdrop_uses_the_same_texts_and_leaves_other_weights():
    plain, dropped = (lab09.trained_on(lab09.pretrained(0), 0, p, SHORT) for p in (0.0, 0.5))
    assert not torch.equal(plain.classifier.weight, dropped.classifier.weight)
    again = lab09.trained_on(lab09.pretrained(0), 0, 0.5, SHORT)
    assert torch.equal(again.classifier.weight, dropped.classifier.weight)
    assert not plain.training


def test_the_control_keeps_the_first_layers():
    model = lab09.pretrained(0)
    first, evenly = lab09.first_layers(model, 2), take_layers(model, lab09.PATH, 2)
    weight = "output.dense.weight"
    layers = [model.get_submodule(f"{lab09.PATH}.{i}").get_parameter(weight) for i in range(4)]
    for net, places in ((first, (0, 1)), (evenly, (0, 2))):
        for i, place in enumerate(places):
            assert torch.equal(
                net.get_submodule(f"{lab09.PATH}.{i}").get_parameter(weight), layers[place]
            )


def test_one_task():
    found = lab09.one_task("contrast", 0)
    heads, mlps, _ = found["rounds"][-1]
    assert sum(map(sum, found["xi"])) == heads and sum(found["nu"]) == mlps
    assert found["rounds"][0][:2] == [32, 4]
    for how in ("pruned", "retrained"):
        assert found[how].keys() == {"good", "random", "bad"}
        assert all(0 <= value <= 100 for value in found[how].values())


def test_the_shipped_results_are_those_of_these_settings():
    depth, subnetworks = experiments.read("lab09_depth"), experiments.read("lab09_subnetworks")
    assert tuple(depth["drops"]) == lab09.DROPS and len(depth["seeds"]) == 3
    for seed in depth["seeds"]:
        assert all(len(row["test"]) == lab09.LAYERS for row in seed.values())
    assert tuple(subnetworks["tasks"]) == lab09.TASKS and len(subnetworks["runs"]) == 3
    for run in (task for seed in subnetworks["runs"] for task in seed):
        assert run["full"] > 95, "a task that was not learned says nothing about what survives"
        assert run["rounds"][-1][2] >= 0.9 * run["rounds"][0][2]
        assert sum(map(sum, run["xi"])) == run["rounds"][-1][0]
