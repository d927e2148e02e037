"""The capstone's pipelines do what their names say, in a few steps."""

import itertools

import lab11_results as make
import pytest
import torch

from course_lib.capstone import given, read, write
from course_lib.capstone.rebuilt import KINDS
from course_lib.cost.decisions import frontier, pick
from course_lib.cost.storage import model_bits
from course_lib.data import pieces
from course_lib.experiments import lab11
from course_lib.experiments.once import tables
from course_lib.models.attention import find_attention
from course_lib.pruning.weights import prunable
from unit.experiments.stored import assert_like_stored


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setitem(lab11.BERT, "texts", 64)
    monkeypatch.setitem(lab11.BERT, "batch", 8)
    monkeypatch.setitem(lab11.BERT, "scores", 40)
    lab11.texts.cache_clear()
    yield
    lab11.texts.cache_clear()


@pytest.fixture
def quick(monkeypatch):
    """The same, with an epoch of each training in both orders."""
    for name, value in {"EPOCHS": (1, 1), "SPARSE": 1, "AFTER": 1}.items():
        monkeypatch.setattr(make, name, value)
    return make


def widths(net):
    return [net.get_submodule(f"conv{i}").out_channels for i in range(1, 5)]


@pytest.mark.parametrize("at_random", [False, True])
def test_slimming_takes_its_share_of_each_layer_and_leaves_the_given_net(at_random):
    net = given("cnn")
    before = {name: p.clone() for name, p in net.named_parameters()}
    slim = lab11.slimmed(
        net, (0.5, 0.25, 0.5, 0.75), 0, sparse_epochs=1, epochs=1, at_random=at_random
    )
    assert widths(slim) == [16, 24, 32, 16] and not slim.training
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())


def test_thinning_reaches_each_target_in_turn_and_holds_the_zeros():
    net = given("cnn")
    thin = lab11.thinned(net, (0.5, 0.8), (1, 1), 0)
    zeros = torch.cat([(p == 0).flatten() for p in prunable(thin).values()]).double().mean()
    assert float(zeros) == pytest.approx(0.8, abs=0.001)
    assert not torch.cat([(p == 0).flatten() for p in prunable(net).values()]).any()


@pytest.mark.long
def test_heads_and_neurons_go_by_importance_or_at_random_and_the_file_can_be_read(tmp_path):
    bert = given("bert")
    by_score, by_chance = lab11.narrowed(bert, 0.5, 0.6), lab11.narrowed(bert, 0.5, 0.6, seed=1)
    for model in (by_score, by_chance):
        assert sum(a.heads for a in find_attention(model)) == 16
        wide = [layer.intermediate.dense.out_features for layer in model.bert.encoder.layer]
        assert abs(sum(wide) - round(0.4 * 4 * 256)) <= 4
        write(model, tmp_path / "m")
        again = KINDS["bert"](read(tmp_path / "m"))
        words = torch.randint(5, 500, (2, 9))
        with torch.no_grad():
            assert torch.allclose(again(words).logits, model.eval()(words).logits, atol=1e-5)
    assert any(
        not torch.equal(a, b)
        for a, b in zip(by_score.parameters(), by_chance.parameters(), strict=True)
        if a.shape == b.shape
    )


@pytest.mark.long
def test_the_teacher_has_nothing_to_teach_itself_but_the_labels():
    bert = given("bert")
    batch = next(pieces.batches(lab11.texts()["train"], "sentiment", lab11.BERT["batch"], seed=0))
    loss = lab11.taught(bert)
    with torch.no_grad():
        own = float(loss(bert, batch))
        labels = float(lab11.losses(bert, batch).mean())
        other = float(loss(lab11.narrowed(bert, 0.5, 0.6), batch))
    assert own == pytest.approx(labels / 2, abs=1e-4) and other > own


@pytest.mark.long
def test_fading_ends_at_its_target_and_pruned_weights_stay_0():
    bert = given("bert")
    faded = lab11.faded(bert, 0.5, 20, 0, lab11.taught(bert))
    large = [p for p in prunable(faded).values() if p.numel() > 2000]
    assert float(torch.cat([(p == 0).flatten() for p in large]).double().mean()) == pytest.approx(
        0.5, abs=0.001
    )


def test_the_stored_pipelines_become_candidates():
    rows = {model: lab11.candidates(lab11.pipelines(model)) for model in lab11.MODELS}
    for model, table in rows.items():
        assert table["storage"][0] == table["products"][0] == 100 and table["lost"][0] == 0
        assert table["levels_met"].max() == 3 and len(table["validation"][0]) == 3
        fig = lab11.explore(rows, pick, model, storage=100, faster=0.5)
        assert "picked: " in fig.get_suptitle()
    stars = [line.get_ydata() for line in lab11.picture(rows, frontier, 3).axes[1].lines]
    assert [3] in stars, "the guess"
    pairs = lab11.chosen_or_random({model: lab11.pipelines(model) for model in lab11.MODELS})
    assert pairs.groupby(["pipeline", "method"]).size().tolist() == [3] * 8
    assert len(lab11.levels()) == 6


def test_the_parts_of_a_bert_are_all_of_it():
    parts = lab11.parts_of_bert(given("bert").state_dict(), model_bits)
    assert parts["percent"].sum() == pytest.approx(100) and len(parts) == 5


@pytest.mark.long
def test_a_remake_of_the_pipelines_makes_the_columns_that_are_shipped(tmp_path, monkeypatch):
    monkeypatch.setitem(
        make.PIPELINES, "cnn", lambda number: itertools.islice(make.cnn_pipelines(number), 1)
    )
    made = tables([({}, make.proved("cnn", 0, tmp_path))])
    assert_like_stored("lab11_capstone", made)
    row, measured = made["pipelines"].loc[0], made["measured"].loc[0]
    assert row["method"] == "as given" and not row[["level_1", "level_2", "level_3"]].any()
    assert measured["bits"] == measured["given_bits"] and 90 < row["validation"] <= 100
    assert (tmp_path / "cnn-0-0.safetensors").is_file()


def test_a_net_with_zeros_gets_narrow_and_keeps_its_zeros(quick):
    thin = lab11.thinned(given("cnn"), (0.9,), (1,), 0)
    narrow = quick.narrowed_with_zeros(thin, 0)
    assert widths(narrow) == [13, 10, 19, 19]
    before, after = quick.left(thin), quick.left(narrow)
    assert after["weights"] < before["weights"] / 5
    assert 0 < after["nonzero"] <= before["nonzero"], "a cut removes zeros, and none comes back"


@pytest.mark.long
def test_both_orders_end_at_the_same_widths_and_are_measured_alike(quick):
    made = tables([({}, quick.both(0, 0))])
    assert_like_stored("lab11_order", made)
    thin, one, other = made["weights"].to_dict("records")
    assert one["weights"] == other["weights"] < thin["weights"]
    assert thin["nonzero"] == round(0.22 * thin["weights"])
    assert one["nonzero"] == round(0.22 * one["weights"])
    assert len(made["measured"]) == 2 * len(quick.ORDER_SEEDS)
