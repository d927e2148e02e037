"""Lab 04's runs: filters taken out, slimming step by step, and the stored tables."""

import copy

import pytest
import torch
from torch import nn

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import lab04
from course_lib.pruning import channels
from course_lib.pruning.channels import slimming
from course_lib.show.output import alt_of
from course_lib.training import evaluate
from unit.experiments.stored import assert_like_stored, remade

SETTINGS = {"epochs": 6, "finetune": 1}


def cut(model, keep, absorb=False):
    return lab04.cut(model, keep, channels.slice_pair, channels.absorb_removed if absorb else None)


@pytest.fixture(scope="module")
def networks():
    """Two dense networks, two trained for slimming, and their data."""
    data = load("digits").subset(400)
    dense = lab04.trained(data, 2, SETTINGS["epochs"])
    sparse = lab04.trained(data, 2, SETTINGS["epochs"], lambda m: slimming.penalty(m, 5e-2))
    return dense, sparse, data


def test_a_penalty_acts_in_training(networks):
    dense, sparse, data = networks
    table = lab04.scale_table({"dense": dense, "L1": sparse}, data)
    near = table.groupby("method")["near zero (%)"].mean()
    assert list(table["seed"]) == [0, 1, 0, 1] and near["L1"] > near["dense"] + 10
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(2)))
    assert lab04.l2_penalty(model, 0.4).item() == pytest.approx(0.2 * 5)


def test_the_surgery_is_that_of_the_library(networks):
    _, sparse, data = networks
    keep = channels.select_channels(sparse[0], 0.5)
    image = data.validation.images[:1]
    for absorb in (True, False):
        theirs, _ = channels.remove_filters(sparse[0], keep, image, absorb=absorb)
        ours = cut(sparse[0], keep, absorb)
        x = data.validation.images
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), atol=1e-4, rtol=1e-4)
    assert lab04.macs(ours, image) < 0.4 * lab04.macs(sparse[0], image)


def test_the_constants_are_exact_inside(networks):
    model, images = networks[0][0], networks[2].validation.images[:8]
    for padding, exact in (("zeros", 36), ("replicate", 64)):
        table = lab04.border_errors(
            model, channels.slice_pair, channels.absorb_removed, images, padding
        )
        absorbed = table[table["method"] == "removed, constant absorbed"]
        assert len(table) == 128 and (absorbed["error"] < 1e-5).sum() == exact
    assert "zero at 64 of 64 places" in alt_of(lab04.draw_border(table))


def test_norms_folded_and_filters_multiplied_change_no_output(networks):
    model, images = networks[0][0], networks[2].validation.images
    errors = lab04.folding_errors(model, lambda m: lab04.fold_all(m, channels.fold_bn), images)
    assert errors["relative"][1] < 1e-13 < errors["relative"][0] < 1e-5
    table = lab04.penalties(model, channels.scale_shift, images)
    assert table["Σ|α|"].nunique() == 1 and table["difference"][1] < 1e-4
    assert table["Σ|p|"][1] == pytest.approx(table["Σ|p|"][0] / 10, rel=1e-3)
    lines = lab04.line_errors(channels.scale_shift, {"bn2": model.bn2})
    assert lines.iloc[0, 1] < 1e-5 < lines.iloc[0, 2]


def test_the_steps_of_slimming(networks):
    dense, sparse, data = networks
    keeps = [channels.select_channels(model, 0.5) for model in sparse]
    before = copy.deepcopy(sparse[0].state_dict())
    chosen = {
        "slimming": keeps,
        "random": [lab04.random_channels(keep, s) for s, keep in enumerate(keeps)],
    }
    for kept in (
        chosen["random"],
        [lab04.largest_filters(m, k) for m, k in zip(sparse, keeps, strict=True)],
    ):
        assert [lab04.widths(k) for k in kept] == [lab04.widths(k) for k in keeps]
    table = lab04.slimming_steps(dense, sparse, chosen, cut, data, SETTINGS)
    slim = table[table["method"] == "slimming"]
    assert list(slim["step"].unique()) == [
        "dense", "sparse-trained", "silenced", *lab04.STEPS, "from scratch"
    ]  # fmt: skip
    assert all(torch.equal(before[name], x) for name, x in sparse[0].state_dict().items())
    results = lab04.measured(table, data)
    (tuned, _) = lab04.pick(table, method="slimming", step="fine-tuned")
    row = results[(results["step"] == "fine-tuned") & (results["seed"] == 0)].iloc[0]
    assert row["accuracy"] == evaluate(tuned, data.validation)
    assert lab04.parameters(tuned) < lab04.parameters(dense[0]) / 2
    taken = lab04.who_takes(sparse, keeps, channels.cascade)
    assert taken.groupby(["seed", "layer"])["share"].sum().round(9).eq(100).all()


def test_equal_macs_are_equal(networks):
    dense, sparse, data = networks
    table = lab04.at_equal_macs(
        dense, sparse, {}, channels.select_channels, cut, [0.5], data, epochs=1
    )
    rows = {method: lab04.pick(table, method=method)[0] for method in table["method"]}
    costs = lab04.costs(rows, data.validation.images[:8], repeats=3).set_index("method")
    assert costs["macs"].nunique() == 1 and (costs["faster"] > 0).all()
    assert costs["bits"]["structured"] < costs["bits"]["unstructured"]
    assert table["remaining"].nunique() == 1 and 0 < table["remaining"][0] < 0.5


@pytest.mark.long
def test_which_score_and_the_explorer(networks):
    dense, sparse, data = networks
    table = lab04.which_score(dense, sparse, channels.select_channels, cut, data, [0.0, 0.5])
    whole = table[table["removed"] == 0].set_index(["method", "seed"])["accuracy"]
    assert set(table["method"]) == {"slimming", "α, dense", "filter L1", "random", "dense"}
    assert whole["random", 1] == whole["filter L1", 1] == whole["α, dense", 1]
    explore = lab04.slimming_explorer(sparse[0], channels.select_channels, cut, data)
    assert "% of the MACs" in alt_of(explore(0.7, "pruned"))


@pytest.mark.long
def test_a_remake_has_the_stored_columns(tmp_path, monkeypatch):
    remake = experiments.registered()["lab04_slimming_digits"]
    tiny = {"images": 60, "epochs": 1, "finetune": 1, "lam": 2e-2, "fraction": 0.5}
    monkeypatch.setitem(remake.__globals__, "DIGITS", tiny)
    result = remade(remake, tmp_path)
    assert result.settings == tiny
    assert tiny.keys() == experiments.settings("lab04_slimming_digits").keys()
    labels = ("seed", "method", "step", "network", "layer")
    assert_like_stored("lab04_slimming_digits", result.tables, labels=labels)


def test_the_stored_runs_give_back_what_the_lab_says():
    shares = lab04.given_back(lab04.stored()).set_index("data")["+ absorbed"]
    assert shares.round(2).to_dict() == {"digits": 0.78, "MNIST": 0.64}


def test_with_a_filter_its_row_its_entries_and_the_next_column_are_removed():
    fig = lab04.cascade(5, 3, 4, removed=(1,))
    assert "65 of 325 parameters, 4,032 of 20,160 MACs" in alt_of(fig)
    first, norm, following = (ax.images[0].get_array() for ax in fig.axes)
    assert first.tolist() == [[1] * 3, [0] * 3, *[[1] * 3] * 3] and not norm[1].any()
    assert following.tolist() == [[1, 0, 1, 1, 1]] * 4
