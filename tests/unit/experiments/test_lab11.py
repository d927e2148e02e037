"""The capstone's pipelines do what their names say, in a few steps."""

import itertools
from functools import partial

import lab11_results as make
import pytest
import torch

from course_lib.capstone import Measured, given, of_bytes, to_bytes
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
def test_heads_and_neurons_go_by_importance_or_at_random_and_the_file_can_be_read():
    bert = given("bert")
    by_score, by_chance = lab11.narrowed(bert, 0.5, 0.6), lab11.narrowed(bert, 0.5, 0.6, seed=1)
    for model in (by_score, by_chance):
        assert sum(a.heads for a in find_attention(model)) == 16
        wide = [layer.intermediate.dense.out_features for layer in model.bert.encoder.layer]
        assert abs(sum(wide) - round(0.4 * 4 * 256)) <= 4
        again = KINDS["bert"](of_bytes(to_bytes(model), "m"))
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
    rows = {model: lab11.candidates(model) for model in lab11.MODELS}
    for model, table in rows.items():
        first = table.iloc[0]
        assert first["method"] == "as given" and first["bits"] == first["macs"] == 100
        assert first["lost"] == [0, 0, 0] and len(first["validation"]) == 3
        assert table["levels_met"].max() == 3 and table["bits"].is_monotonic_decreasing
        fig = lab11.explore(rows, pick, model, storage=100, faster=0.5)
        assert "Picked: " in fig.get_suptitle()
        taken = pick(table.to_dict("records"), lab11.limits(model, 3))
        assert table["levels_met"][taken] == 3
    stars = [line.get_xdata() for line in lab11.picture(rows, frontier, "?", 3).axes[0].lines]
    assert any(list(star) == [3] for star in stars), "the guess"
    assert len(lab11.levels()) == 6


def test_ones_own_model_is_a_row_among_the_candidates_at_its_size():
    own = Measured(1, 0.3, 1.0, 0.2, 1.0, 2.0, (True, False), (True, True))
    table = lab11.with_own(lab11.candidates("bert"), "bert", own)
    (at,) = table.index[table["method"] == "yours"]
    assert table["bits"].is_monotonic_decreasing and table["lost"][at] == [50.0]
    assert table["levels_met"][at] == 0 and at not in frontier(table.to_dict("records"))


def test_the_parts_of_a_bert_are_all_of_it():
    parts = lab11.parts_of_bert(given("bert").state_dict(), model_bits)
    assert parts["percent"].sum() == pytest.approx(100) and len(parts) == 6


@pytest.mark.long
def test_a_remake_of_the_pipelines_makes_the_columns_that_are_shipped(monkeypatch):
    monkeypatch.setitem(
        make.PIPELINES, "cnn", lambda number: itertools.islice(make.cnn_pipelines(number), 1)
    )
    made = tables([({}, make.proved("cnn", 0))])
    assert_like_stored("lab11_capstone", made)
    row, measured = made["pipelines"].loc[0], made["measured"].loc[0]
    assert row["method"] == "as given" and row["levels_met"] == 0 and 90 < row["validation"] <= 100
    assert measured["storage"] == measured["products"] == 100 and measured["lost"] == 0


def test_a_net_with_zeros_gets_narrow_and_keeps_its_zeros():
    thin = lab11.thinned(given("cnn"), (0.9,), (1,), 0)
    narrow = lab11.slimmed(thin, make.SHARES, 0, epochs=1, sparse_epochs=1)
    assert widths(narrow) == [13, 10, 19, 19]
    before, after = (
        torch.cat([(w != 0).flatten() for w in prunable(net).values()]) for net in (thin, narrow)
    )
    assert after.numel() < before.numel() / 5
    assert 0 < after.sum() <= before.sum(), "a cut removes zeros, and none comes back"


@pytest.mark.long
def test_both_orders_are_measured_alike(monkeypatch):
    monkeypatch.setattr(make, "slimmed", partial(lab11.slimmed, epochs=1, sparse_epochs=1))
    monkeypatch.setattr(
        make, "thinned", lambda net, to, _, seed: lab11.thinned(net, to, (1, 1), seed)
    )
    made = tables([({}, make.both(0, 0))])
    assert_like_stored("lab11_order", made)
    thin, one, other = made["weights"].to_dict("records")
    assert thin["left"] == pytest.approx(22, abs=0.1) and one["left"] == pytest.approx(22, abs=0.1)
    assert 0 < other["left"] < 100 and len(made["measured"]) == 2 * len(make.ORDER_SEEDS)
