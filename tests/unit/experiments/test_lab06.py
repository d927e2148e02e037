"""Lab 06's runs: BERT's weights, pruned before and while it is fine-tuned."""

from functools import partial

import lab06_results as made
import pytest
import torch

from course_lib import experiments
from course_lib.experiments import lab06
from course_lib.pruning import components
from course_lib.pruning.weights import encoder_weights, magnitude, sparsity
from course_lib.pruning.weights import prune_then_finetune as library
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
def test_a_transfer(hold):
    found = made.transfer(0, 0.9, hold, how=SHORT)
    assert 40 < found["old"] < 80 and 20 < found["accuracy"] <= 100
    assert ("test" in found) == hold


@pytest.mark.parametrize(
    "method", ["movement", "magnitude", pytest.param("random", marks=pytest.mark.long)]
)
def test_as_many_stay_as_were_asked_for(method):
    found = made.learned(0, 0.2, method, SHORT)
    sizes = [w.numel() for w in encoder_weights(lab06.pretrained(0)).values()]
    kept = sum(
        share * size for share, size in zip(found["kept"].values(), sizes, strict=True)
    ) / sum(sizes)
    assert kept == pytest.approx(0.2, abs=1e-4)
    assert sum(found["moved"].values()) == pytest.approx(0.2 * sum(sizes), abs=2)
    assert (found["before"] > 1.5) == (method == "magnitude")


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
    ranks = made.ranks_for(model, 0.1)
    for net in (components.truncate(model, ranks), made.random_components(model, ranks, 0)):
        assert made.encoder_size(net, total) == pytest.approx(0.1, abs=0.01)
    whole = made.random_components(
        model, {name: min(w.shape) for name, w in encoder_weights(model).items()}, 0
    )
    batch = lab06.batches("validation")[0]
    with torch.no_grad():
        assert torch.allclose(whole(**batch).logits, model(**batch).logits, atol=1e-3)


@pytest.mark.long
def test_gates_go_where_they_are_sent():
    small, about = made.flop(0, 0.5, {"steps": 40, "batch": 8, "lr": 3e-4}, gates_lr=0.4)
    assert about["sizes"][0] > 1.2 and about["sizes"][-1] < 0.9
    assert len(about["ranks"]) == 24 and not components.gated_layers(small)


def test_masks_are_by_size_and_by_chance():
    model = lab06.pretrained(1)
    by_size, chance = lab06.by_size(model, 0.8), lab06.at_random(model, 0.8, 0)
    assert sparsity(by_size) == pytest.approx(0.8, abs=1e-3) == sparsity(chance)
    name = next(iter(by_size))
    w = magnitude(encoder_weights(model))[name]
    assert w[by_size[name]].min() >= w[~by_size[name]].max() > w[chance[name]].min()


@pytest.mark.long
def test_a_remake_has_the_stored_columns(tmp_path, monkeypatch):
    for name, settings in (("FULL", SHORT), ("CAREFUL", SHORT)):
        monkeypatch.setitem(made.RATES, {"FULL": "bold", "CAREFUL": "careful"}[name], settings)
    for f in (made.transfer, made.with_l1, made.finetune, made.flop):
        short = {"recipe" if f is made.with_l1 else "how": SHORT}
        monkeypatch.setattr(made, f.__name__, partial(f, **short))
    for name, value in (("SEEDS", 1), ("SPARSITIES", (0.7,)), ("RANK_SHARES", (0.65,))):
        monkeypatch.setattr(made, name, value)
    result = remade(made.remake_weights, tmp_path)
    assert_like_stored("lab06_weights", result.tables)


def test_the_stored_results_are_of_these_settings():
    regimes = experiments.read("lab06_weights/regimes").dropna(subset="sparsity")
    assert (regimes.groupby(["method", "sparsity"]).size() == 3).all()
    assert set(regimes["sparsity"]) == set(lab06.SPARSITIES)
    learned = experiments.read("lab06_weights/learned")
    assert set(learned["keep"]) == set(made.KEPT) and set(learned["rate"]) == set(made.RATES)
    assert (learned.groupby(["rate", "method", "keep"]).size() == 3).all()
    strengths = experiments.read("lab06_weights/l1").groupby("method")["strength"].unique()
    assert {how: tuple(values) for how, values in strengths.items()} == made.LAMBDAS


@pytest.mark.long
def test_what_notebook_and_deck_make_of_the_tables():
    names = ("regimes", "learned", "l1", "components", "open", "sizes")
    stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
    found = lab06.costs(stored, library)
    assert found.groupby("method").size().eq(3).all() and found["method"].nunique() == 7
    by_method = found.groupby("method")["encoder_kb"].first()
    assert by_method.idxmax() == "dense" and by_method.min() < by_method["dense"] / 5
    of_layer = lab06.by_part(stored["open"], "layer")
    assert of_layer["components"].sum() == stored["open"]["components"].sum()
    named = lab06.name_regimes(stored["regimes"], lambda dense, held, *_: ["free"] * len(held), 1)
    assert named.shape == (3, 1 + len(lab06.SPARSITIES))
    fig = lab06.draw_regimes(
        stored["regimes"], lambda dense, held, *_: ["free"] * len(held), 0, 1.0
    )
    assert fig.axes[0].get_title(loc="left").startswith("30 %: free")
    arms = lab06.one_difference(experiments.read("lab06_soft/arms"))
    assert list(arms["method"].unique()) == list(lab06.DIFFERENCES)
    assert lab06.with_target(stored["sizes"])["method"].nunique() == 2
    assert len(lab06.draw_two_scores().axes) == 3
