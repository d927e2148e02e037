"""Lab 06's runs: BERT's weights, pruned before and while it is fine-tuned."""

import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab06
from course_lib.pruning.weights import encoder_weights, magnitude, sparsity

SHORT = {"steps": 6, "batch": 8, "lr": 3e-4}


pytestmark = pytest.mark.usefixtures("few_texts_of_lab06")


def test_the_new_task_has_a_fresh_classifier():
    old, new = lab06.pretrained(0, head=False), lab06.pretrained(0)
    changed = {
        n
        for (n, p), q in zip(old.named_parameters(), new.parameters(), strict=True)
        if not torch.equal(p, q)
    }
    assert changed == {"classifier.weight", "classifier.bias"}
    again = lab06.pretrained(0)
    assert torch.equal(again.classifier.weight, new.classifier.weight)


def test_training_texts_go_on_for_ever_and_each_epoch_has_its_own_order():
    size = 125
    stream = lab06.endless(lab06.TASK, size, seed=1)
    first, second = ([next(stream)["labels"] for _ in range(4)] for _ in range(2))
    assert sum(map(len, first)) == lab06.TEXTS["train"]
    assert not all(map(torch.equal, first, second))


def test_the_share_falls_from_all_to_what_is_wanted():
    shares = [lab06.kept_at(step, 100, 0.1) for step in range(1, 101)]
    assert shares[:10] == [1.0] * 10 and shares[-30:] == pytest.approx([0.1] * 30)
    assert all(b <= a for a, b in zip(shares, shares[1:], strict=False))


@pytest.mark.parametrize("hold", [True, False])
def test_a_transfer(hold):
    found = lab06.transfer(0, 0.9, hold, how=SHORT)
    assert 40 < found["old task"] < 80 and 20 < found["accuracy"] <= 100
    assert ("test" in found) == hold


@pytest.mark.parametrize("method", ["movement", "magnitude", "random"])
def test_as_many_stay_as_were_asked_for(method):
    found = lab06.learned(0, 0.2, method, SHORT)
    sizes = [w.numel() for w in encoder_weights(lab06.pretrained(0)).values()]
    kept = sum(share * size for share, size in zip(found["kept"], sizes, strict=True)) / sum(sizes)
    assert kept == pytest.approx(0.2, abs=1e-4)
    assert sum(found["moved"].values()) == pytest.approx(0.2 * sum(sizes), abs=2)
    assert (found["before"] > 1.5) == (method == "magnitude")


@pytest.mark.long
def test_who_makes_zeros():
    loss, proximal, reweighted = (
        lab06.with_l1(0, how, lam, {**SHORT, "steps": 30})
        for how, lam in (("loss", 1e-3), ("proximal", 20.0), ("reweighted", 60.0))
    )
    assert loss["zeros"] == 0 < proximal["zeros"] and reweighted["zeros"] > 0


def test_ranks_meet_their_share():
    model = lab06.pretrained(0)
    total = sum(w.numel() for w in encoder_weights(model).values())
    ranks = lab06.ranks_for(model, 0.1)
    for net in (lab06.components.truncate(model, ranks), lab06.random_components(model, ranks, 0)):
        assert lab06.encoder_size(net, total) == pytest.approx(0.1, abs=0.01)
    whole = lab06.random_components(
        model, {name: min(w.shape) for name, w in encoder_weights(model).items()}, 0
    )
    batch = lab06.batches("validation")[0]
    with torch.no_grad():
        assert torch.allclose(whole(**batch).logits, model(**batch).logits, atol=1e-3)


@pytest.mark.long
def test_gates_go_where_they_are_sent():
    small, about = lab06.flop(0, 0.5, {"steps": 40, "batch": 8, "lr": 3e-4}, gates_lr=0.4)
    assert about["sizes"][0] > 1.2 and about["sizes"][-1] < 0.9
    assert len(about["ranks"]) == 24 and not lab06.components.gated_layers(small)


def test_masks_are_by_size_and_by_chance():
    model = lab06.pretrained(1)
    by_size, chance = lab06.by_size(model, 0.8), lab06.at_random(model, 0.8, 0)
    assert sparsity(by_size) == pytest.approx(0.8, abs=1e-3) == sparsity(chance)
    name = next(iter(by_size))
    w = magnitude(encoder_weights(model))[name]
    assert w[by_size[name]].min() >= w[~by_size[name]].max() > w[chance[name]].min()


def test_the_shipped_result_is_of_these_settings():
    seeds = experiments.read("lab06_weights")["seeds"]
    assert len(seeds) == 3
    for seed in seeds:
        assert seed.keys() == lab06.PARTS.keys()
        assert {len(row) for row in seed["regimes"].values()} == {len(lab06.SPARSITIES)}
        assert all(
            len(row) == len(lab06.KEPT)
            for rate in seed["movement"].values()
            for row in rate.values()
        )
        assert {how: len(row) for how, row in seed["l1"].items()} == dict.fromkeys(lab06.LAMBDAS, 3)
    real = experiments.read("lab06_sst2")
    assert real["settings"] == {
        **lab06.SST2,
        "held": list(lab06.SST2["held"]),
        "deleted": list(lab06.SST2["deleted"]),
    }
