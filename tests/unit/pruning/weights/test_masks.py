"""Masks are data beside the model: found by name, counted once, applied in place."""

import pytest
import torch
from torch import nn

from course_lib.pruning import weights
from course_lib.pruning.weights import PrunedLinear


def tied():
    """A language model's tie: the embedding is the output layer."""
    model = nn.Sequential(
        nn.Embedding(10, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 10, bias=False)
    )
    model[3].weight = model[0].weight
    return model


def test_tied_weights_are_pruned_and_counted_once():
    model = tied()
    found, masks = weights.prunable(model), weights.dense_masks(model)
    assert list(found) == ["0.weight", "1.weight"] and found["1.weight"] is model[1].weight
    assert weights.sparsity(masks) == 0 and weights.remaining(masks) == 1
    assert all(m.dtype == torch.bool and m.shape == found[n].shape for n, m in masks.items())
    masks["0.weight"][:5] = False
    assert weights.sparsity(masks) == pytest.approx(20 / 56) == 1 - weights.remaining(masks)
    weights.apply(model, masks)
    assert (model[3].weight[:5] == 0).all() and (model[3].weight[5:] != 0).all()
    mask = torch.zeros(10, 4, dtype=torch.bool)
    weights.apply(model, {"3.weight": mask})  # by its other name, but not by both
    assert (model[0].weight == 0).all()
    with pytest.raises(ValueError, match=r"'0.weight'.*'3.weight'.*tied"):
        weights.check(model, {"0.weight": mask, "3.weight": mask})


def test_nothing_to_prune_is_fine():
    model = nn.ReLU()
    assert weights.prunable(model) == {} and weights.dense_masks(model) == {}
    assert weights.sparsity({}) == 0 and weights.remaining({}) == 1
    weights.apply(model, {})
    with weights.masked(model, {}):
        pass


def test_no_mask_is_applied_if_one_is_wrong():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with pytest.raises(ValueError):
        weights.apply(model, {n: torch.zeros(2, 2) > i for i, n in enumerate(["0.weight", "x"])})
    assert (model[0].weight != 0).all()


TYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int8"]


@pytest.mark.parametrize("name", TYPES)
def test_zeros_are_zeros_in_place_in_every_type_also_where_there_was_a_nan(name):
    dtype = getattr(torch, name)
    model = nn.Module()
    # not contiguous
    model.weight = nn.Parameter(torch.arange(1, 13).view(3, 4).to(dtype).T, requires_grad=False)
    weight, storage = model.weight, model.weight.data_ptr()
    if dtype.is_floating_point or dtype.is_complex:
        model.weight[0, 0] = torch.nan
    kept = torch.arange(12).view(4, 3) % 2 == 1
    expected = model.weight.detach().clone().masked_fill_(~kept, 0)
    weights.apply(model, {"weight": kept})
    assert model.weight is weight and weight.data_ptr() == storage
    assert torch.equal(model.weight, expected)
    if dtype.is_floating_point:
        assert not model.weight.signbit()[~kept].any()


# ---- a pruned layer's backward pass


def draw(x_shape):
    generator = torch.Generator().manual_seed(0)
    x, w = (
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in (x_shape, (5, 4))
    )
    return x, w, torch.rand(5, 4, generator=generator) < 0.5


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)])
def test_the_backward_pass_by_hand_is_autograds(shape):
    x, w, m = draw(shape)
    y, want = PrunedLinear.apply(x, w, m), x @ (w * m).T
    torch.testing.assert_close(y, want)
    g = torch.randn(y.shape, dtype=y.dtype)
    for ours, theirs in zip(
        torch.autograd.grad(y, (x, w), g), torch.autograd.grad(want, (x, w), g), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    if len(shape) < 3 and 0 not in shape:
        assert torch.autograd.gradgradcheck(lambda x, w: PrunedLinear.apply(x, w, m), (x, w))


def test_nan_in_a_pruned_weight_does_no_harm_also_for_each_sample():
    x, w, m = draw((6, 4))
    x, w = x.detach(), w.detach().masked_fill(~m, torch.nan)
    one = torch.func.grad(lambda w, x: PrunedLinear.apply(x, w, m).square().sum())
    per_sample = torch.func.vmap(one, in_dims=(None, 0))(w, x)
    dense = w.masked_fill(~m, 0)
    want = torch.stack([2 * torch.outer(x_i @ dense.T, x_i) * m for x_i in x])
    torch.testing.assert_close(per_sample, want)
