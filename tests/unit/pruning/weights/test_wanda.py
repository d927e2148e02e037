"""Norms of inputs against an explicit unfolding; masks row by row."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.pruning import weights


def test_a_linear_layers_rows_have_the_norm_of_their_inputs_over_samples_and_positions():
    model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    batches = [torch.randn(4, 7, 5), torch.randn(2, 7, 5)]
    found = weights.input_norms(model, batches)
    x = torch.cat([b.reshape(-1, 5) for b in batches]).double()
    torch.testing.assert_close(found["0.weight"], x.norm(dim=0).expand(3, 5))
    hidden = model[0](torch.cat([b.reshape(-1, 5) for b in batches])).relu().double()
    torch.testing.assert_close(found["2.weight"], hidden.norm(dim=0).expand(2, 3))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stride": 2},
        {"padding": 1},
        {"dilation": 2},
        {"groups": 2},
        {"padding": 1, "padding_mode": "circular"},
    ],
    ids=str,
)
def test_a_convolutions_norms_by_unfolding(settings):
    conv = nn.Conv2d(4, 6, 3, **settings)
    x = torch.randn(3, 4, 9, 9)
    found = weights.input_norms(conv, [x])["weight"]
    groups, padding = settings.get("groups", 1), settings.get("padding", 0)
    padded = (
        F.pad(x, [padding] * 4, mode="circular")
        if "padding_mode" in settings
        else F.pad(x, [padding] * 4)
    )
    patches = F.unfold(
        padded.double(), 3, dilation=settings.get("dilation", 1), stride=settings.get("stride", 1)
    )
    norm = patches.square().sum((0, 2)).sqrt().view(4, 3, 3)  # (channels, kernel)
    for m in range(6):
        part = m // (6 // groups)
        torch.testing.assert_close(found[m], norm[part * 4 // groups : (part + 1) * 4 // groups])


def test_the_score_is_the_weights_size_times_that_norm_and_dicts_are_unpacked():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, *, x, twice=False):
            return self.fc(x)

    model, x = Named().train(), torch.randn(5, 3)
    score = weights.input_aware(model, [{"x": x, "twice": True}])["fc.weight"]
    torch.testing.assert_close(
        score, model.fc.weight.detach().double().abs() * x.double().norm(dim=0)
    )
    assert model.training and not model.fc._forward_pre_hooks


def test_in_every_output_as_many_go():
    scores = {
        "fc": torch.tensor([[3.0, 1.0, 2.0, 1.0], [9.0, 9.0, 9.0, 8.0]]),
        "conv": torch.randn(3, 2, 2, 2).abs(),
    }
    masks = weights.per_output_masks(scores, 0.5)
    assert masks["fc"].tolist() == [[True, False, True, False], [False, True, True, False]]
    assert (masks["conv"].flatten(1).sum(1) == 4).all()
