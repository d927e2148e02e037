"""Lab 05's runs: what lies between single weights and filters."""

import lab05_results
import pandas as pd
import pytest
import torch

from course_lib.data.images import load
from course_lib.experiments import by_seed, lab05
from course_lib.models import build
from course_lib.pruning.weights import combine_columns, nm_mask
from course_lib.show import plots
from course_lib.training import evaluate
from unit.experiments.stored import assert_like_stored, remade


@pytest.fixture(scope="module")
def trained():
    data = load("digits").subset(400)
    return data, lab05.train_dense(build("convnet", data, seed=0), data, 0, 6)


@pytest.mark.parametrize("arm", lab05.ARMS)
@pytest.mark.parametrize("target", lab05.TARGETS)
def test_patterns_have_equal_products(trained, arm, target):
    data, model = trained
    net, masks, share = lab05.prune(model, data, arm, target, 0)
    assert share == pytest.approx(target, rel=0.03)
    by_hand, dense = (sum(list(lab05.count_macs(n, data).values())[1:]) for n in (net, model))
    if arm == "filter":  # a smaller network, not masks
        assert masks == {} and by_hand / dense == pytest.approx(share, rel=1e-6)
    else:
        assert by_hand == dense and masks.keys() == set(lab05.select_weights(model))


def test_widths_differ_by_rounding_and_two_of_the_last_layer():
    kept = lab05.choose_widths([32, 64, 64], [1.0, 2.0, 4.0], 0.125)
    shares = [k / f for k, f in zip(kept, [32, 64, 64], strict=True)]
    assert max(shares) - min(shares) < 0.06
    products = shares[0] + 2 * shares[1] * shares[0] + 4 * shares[2] * shares[1]
    assert products / 7 == pytest.approx(0.125, rel=0.03)


def test_what_is_recalibrated_and_trained_comes_back(trained):
    data, model = trained
    before, calls = evaluate(model, data.validation), []

    def mine(weight, n, m, dim):
        calls.append((n, m, dim))
        return nm_mask(weight, n, m, dim)

    (found,) = lab05.patterns(model, data, 0, 4, ["N:M"], [0.125], mine)
    assert (found["method"], found["macs"]) == ("N:M", 0.125) and calls == [(1, 8, 1)] * 3
    assert found["recalibrated"] <= 100 and found["finetuned"] > 85
    assert evaluate(model, data.validation) == before


def test_packings(trained):
    data, model = trained
    sparse = lab05.sparse_start(model, data, 0, 1)
    table = pd.DataFrame(lab05_results.packed(sparse, 0))
    assert list(table["method"].unique()) == ["greedy", "random order"]
    assert list(table["limit"].unique()) == ["γ 0", "γ 0.05", "γ 0.25", "γ 0.5", "none"]
    free, groups = table.iloc[0], table.iloc[-1]
    assert free["lost"] == 0 and 20 < groups["lost"] < 70
    assert 15 < free["utilisation"] < groups["utilisation"] < 100
    mine = pd.DataFrame(lab05.packings(sparse, combine_columns))
    assert mine.equals(table[table["method"] == "greedy"].drop(columns="method"))


def test_columns_in_drawn_order_keep_both_limits_and_each_has_one_place():
    torch.manual_seed(0)
    w = torch.randn(10, 24) * (torch.rand(10, 24) < 0.3)
    w[:, 5] = 0
    group = lab05_results.group_in_random_order
    for size, gamma in ((3, 0.0), (4, 0.2), (8, 1.0)):
        groups = group(w, size, gamma, 1)
        assert sorted(c for g in groups for c in g) == [c for c in range(24) if w[:, c].any()]
        for g in groups:
            there = w[:, g] != 0
            assert len(g) <= size and there.sum() - there.any(1).sum() <= gamma * 10
    assert group(w, 4, 0.2, 1) != group(w, 4, 0.2, 2)
    sizes = [len(g) for g in group(w, 8, float("inf"), 1)]  # random groups
    assert sizes == [8, 8, int(w.any(0).sum()) - 16]


def test_products_are_counted_one_by_one(trained, monkeypatch):
    data, model = trained
    layer = model.conv3
    seen = []
    hook = layer.register_forward_pre_hook(lambda m, inputs: seen.append(inputs[0]))
    share = lab05_results.measure_products(model, data.validation.images[:2])["products"]
    hook.remove()
    assert 0.3 < share < 0.9
    x = torch.nn.functional.unfold(seen[0], 3, padding=1)  # (B, C·9, places)
    by_hand = int(((x[:, None] != 0) & (layer.weight.flatten(1)[None, :, :, None] != 0)).sum())
    monkeypatch.setattr(lab05, "LAYERS", ("conv3",))
    found = lab05_results.measure_products(model, data.validation.images[:2])["products"]
    assert found == pytest.approx(by_hand / (x.numel() * layer.out_channels))


def test_joint_runs(trained):
    data, model = trained
    rows = pd.DataFrame(lab05_results.joint(model, data, 0, 1)).query("m == 4").set_index("method")
    assert rows.accuracy["by size"] > rows.accuracy["random"]
    assert rows.products["random"] < rows.products["by size"] < 1 / 16
    assert rows.products["drawn once"] < rows.products["by size"]


def test_gates_reach_their_share_and_static_channels_have_as_many_products(trained):
    data, model = trained
    gated = lab05.learn_gates(model, data, 0, 0.5, 3)
    own, other = lab05_results.measure_gates(gated, data, 0)
    assert own["macs"] == other["macs"] == pytest.approx(0.5, abs=0.06) and own["accuracy"] > 40
    row = lab05_results.train_static(model, data, 0, own["macs"], 1, at_random=True)
    assert row["macs"] == pytest.approx(own["macs"], rel=0.03)


def test_the_live_run_stands_in_the_figure():
    fig, _ = plots.subplots(1, 2, 4)
    lab05.add_live(fig, 1, [{"x": 0.1, "y": 90.0}], "x", "y", 80)
    mine, guess = fig.axes[1].lines
    assert mine.get_ydata() == [90] and guess.get_ydata() == [80] and not fig.axes[0].lines
    lab05.add_live(fig, 0, [{"x": 0.1, "y": 90.0}], "x", "y")
    assert len(fig.axes[0].lines) == 1


@pytest.mark.long
def test_a_remake_has_the_stored_columns(tmp_path):
    tiny = {"images": 200, "epochs": 1, "finetune": 1, "gates": 1}
    result = remade(by_seed("", tiny, 1, lab05_results.one_seed, data="digits"), tmp_path)
    assert result.settings == tiny
    labels = ("method", "limit", "pattern", "share", "target", "m")
    for which in ("digits", "mnist"):  # one function makes both
        assert_like_stored(f"lab05_between_{which}", result.tables, labels=labels)
