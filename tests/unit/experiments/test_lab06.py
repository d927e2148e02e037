"""Lab 06's runs: BERT's weights, pruned before and while it is fine-tuned."""

import lab06_results as made
import pytest
import torch

from course_lib import experiments
from course_lib.experiments import by_seed, lab06
from course_lib.pruning import components
from course_lib.pruning.weights import encoder_weights, magnitude, sparsity
from unit.experiments.stored import assert_like_stored, remade

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


def test_the_share_falls_from_all_to_what_is_wanted():
    shares = [lab06.kept_at(step, 100, 0.1) for step in range(1, 101)]
    assert shares[:10] == [1.0] * 10 and shares[-30:] == pytest.approx([0.1] * 30)
    assert all(b <= a for a, b in zip(shares, shares[1:], strict=False))


@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.long
def test_pruned_before_fine_tuning(hold):
    found = made.held_or_not(0, 0.9, hold, how=SHORT)
    assert 40 < found["old"] < 80 and 20 < found["accuracy"] <= 100


@pytest.mark.parametrize(
    "method", ["movement", "magnitude", pytest.param("random", marks=pytest.mark.long)]
)
def test_as_many_are_kept_as_were_asked_for(method):
    if method == "movement":
        found = made.by_movement(0, 0.2, SHORT, lam=1.0)
    else:
        found = made.on_the_way(0, 0.2, SHORT, at_random=method == "random")
    assert found["share"] == pytest.approx(0.2, abs=1e-4)
    assert (found["before"] > 1.5) == (method == "magnitude")


def test_soft_movement_finds_its_share():
    found = made.by_movement(0, 0.2, SHORT, lam=100.0, soft=True)
    assert 0 < found["share"] <= 1


@pytest.mark.long
def test_who_makes_zeros():
    loss, proximal, reweighted = (
        made.with_l1(0, how, lam, {**SHORT, "steps": 30})
        for how, lam in (("loss", 1e-3), ("proximal", 20.0), ("reweighted", 60.0))
    )
    assert loss["zeros"] == 0 < proximal["zeros"] and reweighted["zeros"] > 0


def test_ranks_meet_their_share():
    model = lab06.pretrained(0)
    total = sum(w.numel() for w in encoder_weights(model).values())
    ranks = lab06.ranks_for(model, 0.1)
    for net in (components.truncate(model, ranks), made.random_components(model, ranks, 0)):
        assert made.size_of(net) / total == pytest.approx(0.1, abs=0.01)
    whole = made.random_components(
        model, {name: min(w.shape) for name, w in encoder_weights(model).items()}, 0
    )
    batch = lab06.batches("validation")[0]
    with torch.no_grad():
        assert torch.allclose(whole(**batch).logits, model(**batch).logits, atol=1e-3)


@pytest.mark.long
def test_gates_go_where_they_are_sent():
    small, left = made.with_gates(0, 0.5, {"steps": 40, "batch": 8, "lr": 3e-4}, gates_lr=0.4)
    assert set(left) == set(encoder_weights(lab06.pretrained(0)))
    assert 0 < sum(left.values()) < 24 * 128 and not components.gated_layers(small)


def test_masks_are_by_size_and_by_chance():
    model = lab06.pretrained(1)
    by_size, chance = lab06.choose(model, 0.8), lab06.choose(model, 0.8, 0)
    assert sparsity(by_size) == pytest.approx(0.8, abs=1e-3) == sparsity(chance)
    name = next(iter(by_size))
    w = magnitude(encoder_weights(model))[name]
    assert w[by_size[name]].min() >= w[~by_size[name]].max() > w[chance[name]].min()


@pytest.mark.long
def test_a_remake_has_the_stored_columns(tmp_path, monkeypatch):
    tune = lab06.finetune
    monkeypatch.setattr(lab06, "finetune", lambda *args, **kw: tune(*args, **{**kw, "how": SHORT}))
    monkeypatch.setattr(made, "RATES", {"careful": SHORT, "bold": SHORT})
    for name, value in (("SPARSITIES", (0.7,)), ("RANK_SHARES", (0.65,))):
        monkeypatch.setattr(lab06, name, value)
    result = remade(by_seed("", {}, 1, *made.PARTS), tmp_path)
    assert_like_stored("lab06_weights", result.tables)


def test_the_stored_results_are_of_these_settings():
    regimes = experiments.read("lab06_weights/regimes").dropna(subset="sparsity")
    assert (regimes.groupby(["method", "sparsity"]).size() == 3).all()
    assert set(regimes["sparsity"]) == set(lab06.SPARSITIES)
    learned = experiments.read("lab06_weights/learned")
    assert set(learned["keep"]) == set(made.KEPT["bold"]) and set(learned["rate"]) == set(
        made.RATES
    )
    assert (learned.groupby(["rate", "method", "keep"]).size() == 3).all()
    assert learned["method"].nunique() == 5
    strengths = experiments.read("lab06_weights/l1").groupby("method")["strength"].unique()
    assert strengths.pop("magnitude").tolist() == [1.0, 3.0, 5.0]  # as many zeros as reweighted
    assert {way: tuple(values) for way, values in strengths.items()} == made.STRENGTHS


@pytest.mark.long
def test_what_notebook_and_deck_make_of_the_tables():
    names = ("regimes", "learned", "l1", "components", "open")
    stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
    found = lab06.costs(stored)
    assert found.groupby("method").size().eq(3).all() and found["method"].nunique() == 8
    kb = found.groupby("method")["kb"].first()
    assert kb.idxmax() == "dense" and (kb.drop("dense") < 0.9 * kb["dense"]).all()
    named = lab06.name_losses(stored["regimes"], lambda *_: "nothing", 1.0)
    assert named.shape == (3, 1 + len(lab06.SPARSITIES))
    assert len(lab06.draw_two_scores().axes) == 3


def test_the_rate_of_each_step():
    rate = lab06.rate_of({"steps": 20, "lr": 2.0})
    rates = [rate() for _ in range(20)]
    assert 1.8 < max(rates) <= 2 and rates[-1] < rates[5] > rates[0]
