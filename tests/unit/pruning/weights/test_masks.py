"""Masks are data beside the model: found by name, counted once, applied in place."""

import pytest
import torch
from torch import nn

from course_lib.pruning import weights


class Tied(nn.Module):
    """A language model's tie: the embedding is the output layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.hidden = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 10, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x):
        return self.out(self.norm(self.hidden(self.embed(x))))


def test_prunable_is_weights_with_two_or_more_dimensions_in_order():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2))
    found = weights.prunable(model)
    assert list(found) == ["0.weight", "3.weight"]
    assert found["0.weight"] is model[0].weight


def test_tied_weights_come_once_under_their_first_name():
    model = Tied()
    assert list(weights.prunable(model)) == ["embed.weight", "hidden.weight"]
    masks = weights.dense_masks(model)
    masks["embed.weight"][:5] = False
    assert weights.sparsity(masks) == pytest.approx(20 / 56)
    weights.apply(model, masks)
    assert model.out.weight is model.embed.weight
    assert (model.out.weight[:5] == 0).all() and (model.out.weight[5:] != 0).all()


def test_a_tied_weight_may_go_by_its_other_name_but_not_by_both():
    model = Tied()
    mask = torch.zeros(10, 4, dtype=torch.bool)
    weights.apply(model, {"out.weight": mask})
    assert (model.embed.weight == 0).all()
    with pytest.raises(ValueError, match=r"'embed.weight'.*'out.weight'.*tied"):
        weights.check(model, {"embed.weight": mask, "out.weight": mask})


def test_dense_masks_keep_everything():
    masks = weights.dense_masks(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)))
    assert {k: tuple(m.shape) for k, m in masks.items()} == {"0.weight": (2, 3), "1.weight": (2, 2)}
    assert all(m.dtype == torch.bool and m.all() and not m.requires_grad for m in masks.values())
    assert weights.sparsity(masks) == 0 and weights.remaining(masks) == 1


def test_sparsity_counts_weights_not_layers():
    masks = {
        "small": torch.zeros(2, 2, dtype=torch.bool),
        "large": torch.ones(4, 9, dtype=torch.bool),
    }
    assert weights.sparsity(masks) == pytest.approx(0.1)
    assert weights.remaining(masks) == pytest.approx(0.9)


def test_nothing_to_prune_is_fine():
    model = nn.ReLU()
    assert weights.prunable(model) == {} and weights.dense_masks(model) == {}
    assert weights.sparsity({}) == 0 and weights.remaining({}) == 1
    weights.apply(model, {})
    with weights.masked(model, {}):
        pass


def test_apply_zeros_in_place_and_only_where_pruned():
    model = nn.Linear(4, 3)
    weight, storage, before = model.weight, model.weight.data_ptr(), model.weight.detach().clone()
    mask = torch.arange(12).view(3, 4) % 3 > 0
    weights.apply(model, {"weight": mask})
    assert model.weight is weight and weight.data_ptr() == storage and weight.requires_grad
    assert torch.equal(weight, before * mask)


def test_no_mask_is_applied_if_one_is_wrong():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with pytest.raises(ValueError):
        weights.apply(
            model, {"0.weight": torch.zeros(2, 2, dtype=torch.bool), "1.weight": torch.zeros(2, 2)}
        )
    assert (model[0].weight != 0).all()


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
        torch.int8,
    ],
)
def test_zeros_are_zeros_in_every_type_also_where_there_was_a_nan(dtype: torch.dtype) -> None:
    model = nn.Module()
    # not contiguous
    model.weight = nn.Parameter(torch.arange(1, 13).view(3, 4).to(dtype).T, requires_grad=False)
    if dtype.is_floating_point or dtype.is_complex:
        model.weight[0, 0] = torch.nan
    kept = torch.arange(12).view(4, 3) % 2 == 1
    expected = model.weight.detach().clone().masked_fill_(~kept, 0)
    weights.apply(model, {"weight": kept})
    assert torch.equal(model.weight, expected)
    if dtype.is_floating_point:
        assert not model.weight.signbit()[~kept].any()
