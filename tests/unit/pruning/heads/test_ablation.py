"""Heads that are tried out: each alone, and all but one."""

import pytest
import torch

from course_lib.pruning.heads import ablate_each, all_but_one, gated, remove_heads
from unit.small_transformers import HEADS, inputs_of, model_of, outputs


def test_ablation_is_of_one_head_at_a_time_against_the_full_model():
    weight = torch.arange(1.0, 7.0).view(2, 3)
    seen = []

    def evaluate(xi):
        seen.append(xi.clone())
        return float((weight * xi).sum())

    torch.testing.assert_close(ablate_each(evaluate, 2, 3), -weight.double())
    assert sorted(int(xi.sum()) for xi in seen) == [5] * 6 + [6]


def test_all_but_one_chooses_on_validation_and_reports_the_test():
    validation = torch.tensor([[1.0, 5.0, 2.0], [4.0, 4.0, 0.0]])  # equally good: the first
    test = torch.tensor([[9.0, 3.0, 9.0], [7.0, 8.0, 9.0]])
    tested = []

    def on_test(xi):
        tested.append(xi.clone())
        return float((test * xi).sum())

    result = all_but_one(lambda xi: float((validation * xi).sum()), on_test, 2, 3)
    assert result == [(1, 3.0 - 21.0), (0, 7.0 - 24.0)]
    # the full model and one choice for each layer: the test data choose nothing
    assert len(tested) == 3


def test_ablation_is_removal():
    model, inputs = model_of("bert"), inputs_of("bert")

    def evaluate(xi):
        with gated(model, xi):
            return float(outputs(model, inputs).sum())

    keep = torch.ones(3, HEADS, dtype=torch.bool)
    keep[1, 2] = False
    expected = outputs(remove_heads(model, keep), inputs).sum() - outputs(model, inputs).sum()
    found = ablate_each(evaluate, 3, HEADS)
    assert found[1, 2] == pytest.approx(float(expected), abs=1e-10)
