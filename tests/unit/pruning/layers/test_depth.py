"""Layers that are dropped in training, and layers that are taken out."""

import copy

import pytest
import torch
from torch import nn

from course_lib.pruning.layers import layerdrop, layers_to_keep, take_layers
from unit.small_transformers import model_of


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.inner = 0, nn.Linear(2, 2)

    def forward(self, x, mask=None):
        self.calls += 1
        return self.inner(x)


def test_one_number_a_call_in_calling_order():
    layers = nn.ModuleList([Counting() for _ in range(3)]).train()
    draws = torch.rand(12, generator=torch.Generator().manual_seed(1)).tolist()
    keys, objects = list(layers.state_dict()), list(layers)
    x = torch.randn(4, 2)
    with layerdrop(layers, 0.5, torch.Generator().manual_seed(1)):
        assert list(layers.state_dict()) == keys and list(layers) == objects
        for t in range(4):
            for i in (2, 0, 1):
                before = layers[i].calls
                out = layers[i](x, mask=None)
                skipped = draws[3 * t + (2, 0, 1).index(i)] < 0.5
                assert (out is x) == skipped and layers[i].calls == before + (not skipped)
        layers.eval()
        for layer in layers:
            assert layer(x) is not x  # nothing is drawn or skipped
    assert all("forward" not in vars(layer) for layer in layers)


@pytest.mark.parametrize(("p", "skipped"), [(0.0, False), (1.0, True)])
def test_never_and_always(p, skipped):
    layers = nn.ModuleList([nn.Linear(2, 2)])
    x = torch.randn(1, 2)
    with layerdrop(layers, p, torch.Generator()):
        assert (layers[0](x) is x) == skipped


def test_gone_after_an_exception():
    layers = nn.ModuleList([nn.Linear(2, 2)])
    with pytest.raises(RuntimeError, match="mine"), layerdrop(layers, 0.5, torch.Generator()):
        raise RuntimeError("mine")
    assert "forward" not in vars(layers[0])


@pytest.mark.parametrize(
    ("layers", "depth", "kept"),
    [(4, 2, [0, 2]), (6, 4, [0, 1, 3, 4]), (5, 1, [0]), (3, 3, [0, 1, 2])],
)
def test_evenly_spaced(layers, depth, kept):
    assert layers_to_keep(layers, depth) == kept


def test_taken_from_a_copy():
    model = model_of("bert")
    before = copy.deepcopy(model.state_dict())
    smaller = take_layers(model, "bert.encoder.layer", 2)
    assert (smaller.config.num_hidden_layers, model.config.num_hidden_layers) == (2, 3)
    with torch.no_grad():
        for p in smaller.parameters():
            p.zero_()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
