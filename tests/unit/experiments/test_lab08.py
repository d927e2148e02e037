"""Lab 08's runs, shortened."""

import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab08
from course_lib.recipes import translation as recipe


@pytest.fixture(scope="module", autouse=True)
def few_sentences():
    torch.set_num_threads(1)
    kept = dict(lab08.SENTENCES), dict(lab08.GATES), dict(lab08.FIXED), lab08.DRAWS
    lab08.SENTENCES |= {"train": 300, "validation": 60, "test": 30}
    lab08.GATES |= {"steps": 2}
    lab08.FIXED |= {"steps": 2}
    lab08.DRAWS = 1
    lab08.data.cache_clear()
    yield
    lab08.SENTENCES |= kept[0]
    lab08.GATES |= kept[1]
    lab08.FIXED |= kept[2]
    lab08.DRAWS = kept[3]
    lab08.data.cache_clear()


def test_losses():
    model, batch = lab08.trained(0), lab08.batches("scores", 7)[0]
    with torch.no_grad():
        assert lab08.loss(model, batch).item() == pytest.approx(
            model(**batch).loss.item(), abs=1e-5
        )
        assert lab08.losses(model, batch).shape == (7,)


@pytest.mark.long
def test_kinds_and_masks():
    model = lab08.trained(0)
    scores = lab08.importance_by_kind(model)
    assert {kind: tuple(s.shape) for kind, s in scores.items()} == {
        "encoder": (3, 6),
        "decoder": (1, 6),
        "cross": (1, 6),
    }
    found = lab08.kinds(0, (0.0, 1.0))
    assert found["cross"]["I_h"][1] < found["encoder"]["I_h"][1] < found["encoder"]["I_h"][0]


def test_gates_and_their_controls():
    found = lab08.gate_path(0, (0.01, 1.0))
    assert [s["lambda"] for s in found["steps"]] == [0.01, 1.0] and len(found["random"]) == 1
    assert sum(map(sum, found["steps"][-1]["keep"])) == found["steps"][-1]["left"]


def test_roles_know_the_truth():
    found = lab08.roles(0)
    rules = found["rules"]
    assert (
        rules["plural: from its head"]["offset"][0] == 1
        and rules["previous"]["offset"] == [-1, 1.0]
        or rules["previous"]["offset"] == (-1, 1.0)
    )
    assert all(len(rule["shares"]) == 18 for rule in rules.values())
    assert max(rules["mark: from its head"]["shares"]) > rules["mark: from its head"]["offset"][1]
    assert len(found["ablation"]["zero"]) == len(found["ablation"]["mean"]) == 18


@pytest.mark.long
def test_fixed_attention_over_training_and_classes():
    fixed = lab08.fixed(0)
    assert fixed.keys() == {"learned", "fixed", "uniform", "removed"}
    assert fixed["learned"]["before"] > fixed["fixed"]["before"]
    assert lab08.over_training(0).keys() == {str(s) for s in (*recipe.KEPT, recipe.STEPS)}
    assert len(lab08.translation_classes(0)) == 18


def test_the_shipped_result():
    seeds = experiments.read("lab08_heads")["seeds"]
    assert len(seeds) == 3
    for seed in seeds:
        assert seed.keys() == lab08.PARTS.keys()
        assert seed["kinds"]["all"]["I_h"][0] > 95 and len(seed["kinds"]["all"]["I_h"]) == len(
            lab08.FRACTIONS
        )
        assert seed["gates"]["steps"][-1]["left"] <= 6
