"""A sensitivity scan prunes one layer at a time, on validation data, and leaves the
model as it was.
"""

import copy

import pytest
import torch
from torch import nn

from course_lib.pruning import weights


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))


def test_one_layer_at_a_time_on_validation_data(model):
    seen = []

    def evaluate(model, split):
        assert split == "validation"
        zeros = {name: int((w == 0).sum()) for name, w in weights.prunable(model).items()}
        seen.append(zeros)
        return float(sum(zeros.values()))

    before = copy.deepcopy(model.state_dict())
    # any order: each starts from the dense layer
    result = weights.sensitivity(model, evaluate, [0.5, 0.25, 0.0, 1.0])
    assert result == {"0.weight": [10.0, 5.0, 0.0, 20.0], "3.weight": [6.0, 3.0, 0.0, 12.0]}
    assert [z["3.weight"] for z in seen[:4]] == [0] * 4 and [z["0.weight"] for z in seen[4:]] == [
        0
    ] * 4
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_the_model_comes_back_after_an_exception(model):
    before, parameters = copy.deepcopy(model.state_dict()), list(model.parameters())

    def evaluate(model, split):
        raise OSError("the data are gone")

    with pytest.raises(OSError):
        weights.sensitivity(model, evaluate, [0.9])
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))


def test_evaluate_may_take_gradients(model):
    """A scan by loss change may call backward inside; gradients have to be on there,
    and the weights writable.
    """

    def evaluate(model, split):
        loss = model(torch.ones(2, 5)).sum()
        loss.backward()
        return loss.item()

    assert len(weights.sensitivity(model, evaluate, [0.5])["0.weight"]) == 1


def test_nothing_to_scan():
    assert weights.sensitivity(nn.ReLU(), lambda m, s: 0.0, [0.5]) == {}
    assert weights.sensitivity(nn.Linear(2, 2), lambda m, s: 0.0, []) == {"weight": []}
