"""Lab 04's runs: filters removed, the collapse repaired, rivals at equal MACs."""

import copy

import lab04_results
import pytest
import torch
from torch import nn

from course_lib import experiments
from course_lib.cost import model_cost, totals
from course_lib.data.images import load
from course_lib.experiments import by_seed, lab04
from course_lib.pruning import channels
from course_lib.pruning.channels import slimming
from course_lib.show.output import alt_of
from unit.experiments.stored import assert_like_stored, remade


def cascade(keep, weight, beta):
    """4.3 by the library."""
    return channels.cascade(keep, weight, beta.relu())


def cut(model, keep, absorb=()):
    return lab04.cut(model, keep, channels.slice_pair, cascade, absorb)


@pytest.fixture(scope="module")
def networks():
    """A dense network, one trained for slimming, and their data."""
    data = load("digits").subset(400)
    (dense,) = lab04.trained(data, 1, 6)
    (sparse,) = lab04.trained(data, 1, 6, lambda m: slimming.penalty(m, 5e-2))
    return dense, sparse, data


def test_a_penalty_acts_in_training(networks):
    dense, sparse, _ = networks
    near = [float((lab04.scales(m) < 0.02).float().mean()) for m in (dense, sparse)]
    assert near[1] > near[0] + 0.1
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(2)))
    assert lab04.l2_penalty(model, 0.4).item() == pytest.approx(0.2 * 5)


def test_the_surgery_is_that_of_the_library(networks):
    _, sparse, data = networks
    keep = channels.select_channels(sparse, 0.5)
    x, before = data.validation.images, copy.deepcopy(sparse.state_dict())
    for absorb in (True, False):
        theirs, _ = channels.remove_filters(sparse, keep, x[:1], absorb=absorb)
        ours = cut(sparse, keep, lab04.LAYERS if absorb else ())
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), atol=1e-4, rtol=1e-4)
    assert lab04.macs(ours, x[:1]) < 0.4 * lab04.macs(sparse, x[:1])
    assert all(torch.equal(before[name], now) for name, now in sparse.state_dict().items())


def test_repairs_differ_where_they_say(networks):
    _, sparse, data = networks
    keep = channels.select_channels(sparse, 0.5)
    nets = {how: lab04.repair(sparse, keep, cut, data, how) for how in lab04.REPAIRS}
    removed = nets["only removed"]
    assert torch.equal(removed.bn2.running_mean, nets["layer 4 absorbed"].bn2.running_mean)
    assert not torch.equal(removed.fc.bias, nets["layer 4 absorbed"].fc.bias)
    assert not torch.equal(removed.bn2.running_mean, nets["all absorbed"].bn2.running_mean)
    assert torch.equal(removed.fc.bias, nets["recalibrated"].fc.bias)
    left = lab04.constants_left(sparse, keep, cascade)
    assert left["removed"].sum() == sum(int((~kept).sum()) for kept in keep.values())
    assert left["in σ"].isna().tolist() == [False] * 3 + [True]


def test_the_constants_are_exact_inside(networks):
    model, images = networks[0], networks[2].validation.images[:8]
    for padding, exact in (("zeros", 36), ("replicate", 64)):
        table = lab04.border_errors(model, channels.slice_pair, cascade, images, padding)
        absorbed = table[table["method"] == "removed, constant absorbed"]
        assert len(table) == 128 and (absorbed["error"] < 1e-5).sum() == exact
    assert "zero at 64 of 64 places" in alt_of(lab04.draw_border(table))


def test_norms_folded_change_no_output(networks):
    model, images = networks[0].double().eval(), networks[2].validation.images.double()
    folded = lab04.fold_all(model, channels.fold_bn)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in folded.modules())
    torch.testing.assert_close(folded(images), model(images), rtol=1e-12, atol=1e-12)
    model.float()


def test_single_weights_have_the_macs_they_are_given(networks):
    dense, sparse, data = networks
    image = data.validation.images[:1]
    for fraction in (0.5, 0.8):
        budget = lab04.macs(cut(sparse, channels.select_channels(sparse, fraction)), image)
        masks = lab04.weights_at_macs(dense, budget, image)
        tuned = lab04.tune(dense, data, 0, 1, masks)
        used = totals(model_cost(tuned, image))["nonzero_macs"]
        assert 0.97 * budget < used <= budget
    assert lab04.tune(dense, data, 0, 0).training is dense.training


@pytest.mark.long
def test_the_explorer(networks):
    _, sparse, data = networks
    explore = lab04.slimming_explorer(sparse, cut, data)
    assert "% of the MACs" in alt_of(explore(0.7, "only removed"))


@pytest.mark.long
def test_a_remake_has_the_stored_columns(tmp_path):
    tiny = {"images": 60, "epochs": 1, "finetune": 1, "lam": 2e-2}
    result = remade(by_seed("", tiny, 1, lab04_results.one_seed, data="digits"), tmp_path)
    assert result.settings == tiny
    assert tiny.keys() == experiments.settings("lab04_slimming_digits").keys()
    labels = ("method", "repair", "removed", "layer")
    assert_like_stored("lab04_slimming_digits", result.tables, labels=labels)


def test_with_a_filter_its_row_its_entries_and_the_next_column_are_removed():
    fig = lab04.removed_filters(5, 3, 4, removed=(1,))
    assert "65 of 325 parameters, 4,032 of 20,160 MACs" in alt_of(fig)
    first, norm, following = (ax.images[0].get_array() for ax in fig.axes)
    assert first.tolist() == [[1] * 3, [0] * 3, *[[1] * 3] * 3] and not norm[1].any()
    assert following.tolist() == [[1, 0, 1, 1, 1]] * 4
