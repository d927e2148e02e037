"""Lab 05's runs: what lies between single weights and filters."""

import copy
import math

import lab05_results
import pandas as pd
import pytest
import torch

from course_lib import experiments
from course_lib.cost.block_formats import nm_bits
from course_lib.data.images import load
from course_lib.experiments import lab05
from course_lib.models import build
from course_lib.parallel import side_by_side
from course_lib.pruning.weights import group_columns
from course_lib.training import evaluate
from unit.experiments.stored import assert_like_stored, remade


@pytest.fixture(scope="module")
def trained():
    data = load("digits").subset(400)
    return data, lab05.train_dense(build("convnet", data, seed=0), data, 0, 6)


@pytest.mark.parametrize("arm", lab05.ARMS)
def test_patterns_are_equally_sparse(trained, arm):
    masks = lab05.pattern_masks(trained[1], arm, 1, 4, 0)
    assert masks.keys() == set(lab05.WEIGHTS)
    shares = [float(mask.float().mean()) for mask in masks.values()]
    assert shares == pytest.approx([0.25] * 3, abs=0.02)


def test_what_is_recalibrated_and_trained_comes_back(trained):
    data, model = trained
    before = evaluate(model, data.validation)
    dense, found = lab05.patterns(model, data, 0, [(1, 8)], ("N:M",), finetune=4)
    assert dense["method"] == "dense" and math.isnan(dense["sparsity"])
    assert (found["method"], found["sparsity"]) == ("N:M", 0.875)
    assert found["pruned"] < found["recalibrated"] <= 100 and found["finetuned"] > 85
    assert evaluate(model, data.validation) == before == dense["recalibrated"]


@pytest.mark.long
def test_packings(trained):
    data, model = trained
    (sparse,) = lab05.sparse_nets([model], data, 1)
    table = pd.DataFrame(lab05.packings(sparse, data, 0, group_columns))
    assert list(table["method"].unique()) == ["greedy", "random order", "random groups"]
    free, chance = table.iloc[0], table.iloc[-1]
    assert free["limit"] == "γ 0" and chance["limit"] == "none"
    assert free["lost"] == 0 and free["accuracy"] == evaluate(sparse, data.validation)
    assert 0.15 < free["utilisation"] < chance["utilisation"] < 1 and 0.2 < chance["lost"] < 0.7
    assert lab05.in_percent(table)["lost"].equals(100 * table["lost"])


def test_costs_of_what_is_stored(trained):
    data, model = trained
    nets = {name: [lab05.pruned_to(model, data, 0, 2, 4, 1)] for name in ("dense", "2:4")}
    nets["columns, γ 0"] = nets["2:4"]
    table = lab05.costs(nets, data, nm_bits, group_columns).set_index("method")
    weights = sum(w.numel() for w in lab05.select_weights(model).values())
    assert table.loc["dense", "stored_kb"] == 32 * weights / 8e3
    assert table.loc["2:4", "stored_kb"] == 34 * weights / 2 / 8e3
    assert table["bits"].nunique() == 1 and (table["ms"] > 0).all()  # the same zeros
    matrix = torch.eye(4)  # one group of four: a column of cells, four values
    assert lab05.count_packed_bits(matrix, [[0, 1, 2, 3]]) == 4 * (32 + 3) + 4 * 2


def test_the_explorer_draws_a_pattern(trained):
    table = experiments.read("lab05_between_digits/patterns")
    fig = lab05.draw_pattern(trained[1], table, "N:M", "1:8")
    assert fig.axes[1].get_title(loc="left") == "N:M, 87.5 % pruned" and len(fig.axes) == 2


def test_products_are_counted_one_by_one(trained):
    data, model = trained
    layer = model.conv3
    seen = []
    hook = layer.register_forward_pre_hook(lambda m, inputs: seen.append(inputs[0]))
    share = lab05.measure_products(model, data.validation.images[:2])
    hook.remove()
    assert 0.3 < share < 0.9
    x = torch.nn.functional.unfold(seen[0], 3, padding=1)  # (B, C·9, places)
    by_hand = int(((x[:, None] != 0) & (layer.weight.flatten(1)[None, :, :, None] != 0)).sum())
    only = lab05.LAYERS
    try:
        lab05.LAYERS = ("conv3",)
        assert lab05.measure_products(model, data.validation.images[:2]) == pytest.approx(
            by_hand / (x.numel() * layer.out_channels)
        )
    finally:
        lab05.LAYERS = only


def test_joint_runs(trained):
    data, model = trained
    by_size = lab05.joint(model, data, 0, 1, 1, 4, 1)
    chance = lab05.joint(model, data, 0, 1, 1, 4, 1, "random")
    once = lab05.joint(model, data, 0, 1, 1, 4, 1, "drawn once")
    assert (
        by_size["accuracy"] > chance["accuracy"]
        and chance["products"] < by_size["products"] < 1 / 16
    )
    assert once["products"] < by_size["products"]
    inputs = [(c, side, side) for c, side in ((32, 8), (32, 4), (64, 4))]
    assert len(set(inputs)) == 3  # a mask for each layer


def test_gates_reach_their_share_and_a_frozen_network_stays(trained):
    data, model = trained
    gated = lab05.learn_gates(model, data, 0, 0.5, 6)
    found = lab05.measure_gates(gated, data)
    assert found["macs"] == pytest.approx(0.5, abs=0.06) and found["accuracy"] > 40
    for mine, theirs in zip(
        gated.net.state_dict().values(), model.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs)
    static = lab05.learn_gates(model, data, 0, 0.5, 1, by_image=False)
    lab05.measure_gates(static, data)
    assert all((gate == gate[0]).all() for gate in static.decided)


def test_a_network_that_trains_with_its_gates(trained):
    data, model = trained
    table = pd.DataFrame(lab05_results.gates_and_network(model, data, 0, 0.3, 2))
    names = ["dynamic", "another image's gates", "largest |α|", "random"]
    assert list(table["method"]) == names and table["accuracy"].notna().all()
    assert table["macs"].iloc[-1] == pytest.approx(0.3, abs=0.03)


@pytest.mark.long
def test_side_by_side_as_one_after_the_other(trained):
    data, model = trained
    # a model each, as in the lab
    jobs = [(copy.deepcopy(model), data, seed, 0.5, 1) for seed in range(3)]
    assert side_by_side(lab05.gates_on_a_frozen_net, jobs) == [
        lab05.gates_on_a_frozen_net(*job) for job in jobs
    ]


def test_columns_in_drawn_order_keep_both_limits_and_each_has_one_place():
    torch.manual_seed(0)
    w = torch.randn(10, 24) * (torch.rand(10, 24) < 0.3)
    w[:, 5] = 0
    for size, gamma in ((3, 0.0), (4, 0.2), (8, 1.0)):
        groups = lab05.group_in_random_order(w, size, gamma, 1)
        assert sorted(c for g in groups for c in g) == [c for c in range(24) if w[:, c].any()]
        for group in groups:
            there = w[:, group] != 0
            assert len(group) <= size and there.sum() - there.any(1).sum() <= gamma * 10
    assert lab05.group_in_random_order(w, 4, 0.2, 1) != lab05.group_in_random_order(w, 4, 0.2, 2)


@pytest.mark.long
def test_a_remake_has_the_stored_columns(tmp_path, monkeypatch):
    tiny = {"images": 200, "epochs": 1, "finetune": 1, "gates": 1}
    remake = experiments.registered()["lab05_between_digits"]
    monkeypatch.setattr(lab05, "DIGITS", tiny)
    result = remade(remake, tmp_path)
    assert result.settings == tiny
    labels = ("method", "packing", "pattern", "network", "share", "sparsity")
    for which in ("digits", "mnist"):  # one function makes both
        assert_like_stored(f"lab05_between_{which}", result.tables, labels=labels)
