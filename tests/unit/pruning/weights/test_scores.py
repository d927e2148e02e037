"""Scores: |w|, and the random control."""

import pytest
import torch
from torch import nn

from course_lib.pruning import weights


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_magnitude_is_the_absolute_value_in_the_weights_dtype(dtype):
    given = {"a": torch.tensor([[-2.0, 0.5], [-0.0, 1.0]], dtype=dtype)}
    scores = weights.magnitude(given)
    assert scores["a"].dtype == dtype and scores["a"].tolist() == [[2.0, 0.5], [0.0, 1.0]]
    assert given["a"][0, 0] == -2


def test_magnitude_is_detached_from_the_model_and_its_memory():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        # where |w| = w a lazy implementation might hand the weights themselves back
        model.weight.abs_()
    score = weights.magnitude(weights.prunable(model))["weight"]
    assert not score.requires_grad
    score.zero_()
    assert (model.weight != 0).all()


def test_random_scores_come_from_the_generator_alone():
    given = weights.prunable(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
    before = torch.get_rng_state()
    first = weights.random(given, torch.Generator().manual_seed(1))
    again = weights.random(given, torch.Generator().manual_seed(1))
    other = weights.random(given, torch.Generator().manual_seed(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[k], again[k]) for k in given)
    assert not any(torch.equal(first[k], other[k]) for k in given)
    assert {k: s.shape for k, s in first.items()} == {k: w.shape for k, w in given.items()}


def test_random_scores_do_not_tie():
    """Ties are broken by position: a control with many of them would not be random."""
    scores = weights.random({"w": torch.empty(1000, 300)}, torch.Generator().manual_seed(0))["w"]
    assert scores.unique().numel() == scores.numel()
    assert scores.min() >= 0 and scores.max() < 1
