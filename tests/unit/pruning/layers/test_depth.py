"""Layers that are dropped in training, and layers that are taken out."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

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


@pytest.mark.parametrize(
    "keep",
    [
        [0, 2],
        (0, 2),
        torch.tensor([0, 2]),
        torch.tensor([True, False, True]),
        [True, False, True],
        np.array([True, False, True]),
        np.array([0, 2]),
        sorted(torch.tensor([0.3, 0.1, 0.2]).argsort()[1:]),  # tensors of one number
    ],
    ids=repr,
)
def test_layers_chosen_by_score(keep):
    model = model_of("bert")
    smaller = take_layers(model, "bert.encoder.layer", keep)
    assert smaller.bert.encoder.layer.kept_layers == (0, 2)
    for kept, old in zip(smaller.bert.encoder.layer, (0, 2), strict=True):
        theirs = model.bert.encoder.layer[old].state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in kept.state_dict().items())
    assert smaller.config.num_hidden_layers == 2


@pytest.mark.parametrize(
    "keep",
    [
        *([], [2, 0], [0, 0], [0, 3], [-1], [0.0, 2.0], [0, True], ["0"]),
        *([True, False], [False] * 3, True, 2.0, "02", None, {0, 2}),
        *(torch.tensor([[True, False, True]]), torch.tensor([1.0, 0.0, 1.0])),
    ],
    ids=repr,
)
def test_what_is_no_choice_of_layers_is_refused(keep):
    with pytest.raises(ValueError, match=r"^keep is a number of layers.*0 to 2.* mask \(3,\)"):
        take_layers(model_of("bert"), "bert.encoder.layer", keep)


def test_a_model_under_torchs_pruning_is_refused_with_the_remedy():
    model = model_of("bert")
    prune.random_unstructured(model.bert.encoder.layer[1].output.dense, "weight", 0.5)
    with pytest.raises(ValueError, match=r"layer\.1\.output\.dense'.*call prune\.remove\("):
        take_layers(model, "bert.encoder.layer", 2)
    prune.remove(model.bert.encoder.layer[1].output.dense, "weight")
    take_layers(model, "bert.encoder.layer", 2)
