"""Layers that are dropped in training, and layers that are taken out; the conformance test
has the families.
"""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.pruning.layers import layerdrop, layers_to_keep, take_layers
from unit.small_transformers import model_of

PATH = "bert.encoder.layer"


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.inner = 0, nn.Linear(2, 2)

    def forward(self, x, mask=None):
        self.calls += 1
        return self.inner(x)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_one_number_a_call_in_calling_order(p):
    layers = nn.ModuleList([Counting() for _ in range(3)]).train()
    draws = torch.rand(12, generator=torch.Generator().manual_seed(1)).tolist()
    keys, objects = list(layers.state_dict()), list(layers)
    x = torch.randn(4, 2)
    block = layerdrop(layers, p, torch.Generator().manual_seed(1))
    with pytest.raises(KeyError), block:
        assert list(layers.state_dict()) == keys and list(layers) == objects
        for t in range(4):
            for i in (2, 0, 1):
                before = layers[i].calls
                out = layers[i](x, mask=None)
                skipped = draws[3 * t + (2, 0, 1).index(i)] < p
                assert (out is x) == skipped and layers[i].calls == before + (not skipped)
        assert all(layer(x) is not x for layer in layers.eval())  # nothing is skipped
        raise KeyError
    assert all("forward" not in vars(layer) for layer in layers)


@pytest.mark.parametrize(
    ("layers", "depth", "kept"),
    [(4, 2, [0, 2]), (6, 4, [0, 1, 3, 4]), (5, 1, [0]), (3, 3, [0, 1, 2])],
)
def test_evenly_spaced(layers, depth, kept):
    assert layers_to_keep(layers, depth) == kept


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (2, (0, 1)),
        ([0, 2], (0, 2)),
        ((0, 2), (0, 2)),
        (torch.tensor([1]), (1,)),
        (torch.tensor([True, False, True]), (0, 2)),
        ([True, False, True], (0, 2)),
        (np.array([True, False, True]), (0, 2)),
        (np.array([0, 2]), (0, 2)),
        (sorted(torch.tensor([0.3, 0.1, 0.2]).argsort()[1:]), (0, 2)),  # tensors of one number
    ],
    ids=repr,
)
def test_a_number_or_layers_chosen_by_score(keep, kept):
    model = model_of("bert")
    before = copy.deepcopy(model.state_dict())
    smaller = take_layers(model, PATH, keep)
    assert smaller.bert.encoder.layer.kept_layers == kept
    assert (smaller.config.num_hidden_layers, model.config.num_hidden_layers) == (len(kept), 3)
    for layer, old in zip(smaller.bert.encoder.layer, kept, strict=True):
        theirs = model.bert.encoder.layer[old].state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in layer.state_dict().items())
    for p in smaller.parameters():
        p.data.zero_()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    "keep",
    [
        *([], [2, 0], [0, 0], [0, 3], [-1], [0.0, 2.0], ["0"]),
        *([True, False], [False] * 3, True, 2.0, "02", None, {0, 2}),
        *(torch.tensor([[True, False, True]]), torch.tensor([1.0, 0.0, 1.0])),
    ],
    ids=repr,
)
def test_what_is_no_choice_of_layers_is_refused(keep):
    with pytest.raises(ValueError, match=r"^keep is a number of layers.*0 to 2.* mask \(3,\)"):
        take_layers(model_of("bert"), PATH, keep)
