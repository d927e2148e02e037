"""Heads are scored by the slope of each sample's loss, or tried out one by one, and scored
again as they go.
"""

import pytest
import torch
import torch.nn.functional as F

from course_lib.pruning.heads import (
    ablate_each,
    all_but_one,
    find_attention,
    gated,
    head_importance,
    lowest_heads,
    normalise_by_layer,
    prune_heads_iteratively,
    remove_heads,
)
from unit.small_transformers import (
    BOTH,
    HEADS,
    TEXT_CLASSIFIERS,
    close,
    data_of,
    gateable,
    hooks_of,
    inputs_of,
    loss_of,
    model_of,
    outputs,
    some_heads,
)


@BOTH
@pytest.mark.parametrize("family", ["bert", "gpt2 with cross-attention", "torchvision vit"])
def test_importance_is_the_mean_over_samples_of_the_slope_along_each_gate(family, attention):
    """The conformance suite asks every family for less: one head a layer, coarsely."""
    model, data, loss = gateable(family, attention), data_of(family, 3), loss_of(family)
    layers, step = len(find_attention(model)), 1e-5
    expected = torch.zeros(layers, HEADS, dtype=torch.float64)
    for layer in range(layers):
        for head in range(HEADS):
            ends = []
            for side in (step, -step):
                xi = torch.ones(layers, HEADS, dtype=torch.float64)
                xi[layer, head] += side
                with gated(model, xi), torch.no_grad():
                    ends.append(loss(model, data))  # (B,)
            expected[layer, head] = ((ends[0] - ends[1]) / (2 * step)).abs().mean()
    importance = head_importance(model, [data], loss)
    assert importance.shape == (layers, HEADS) and importance.dtype == torch.float64
    assert expected.max() > 1e-2
    torch.testing.assert_close(importance, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("family", [*TEXT_CLASSIFIERS, "marian", "t5"])
def test_padding_changes_nothing(family):
    model, data, loss = model_of(family), data_of(family), loss_of(family)
    padded = dict(data)
    for name in ("input_ids", "attention_mask"):
        padded[name] = F.pad(data[name], (0, 5))
    close(head_importance(model, [padded], loss), head_importance(model, [data], loss), atol=1e-10)
    smaller = remove_heads(model, some_heads(len(find_attention(model))))
    inputs = [{name: x for name, x in d.items() if name != "labels"} for d in (padded, data)]
    close(outputs(smaller, inputs[0]), outputs(smaller, inputs[1]), atol=1e-10)


@pytest.mark.parametrize("fails", [False, True])
def test_modes_gradients_and_hooks_are_left_as_they_were(fails):
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    model.train()
    model.bert.pooler.eval()
    model.bert.embeddings.requires_grad_(False)
    model.classifier.weight.grad = torch.full_like(model.classifier.weight, 3.0)

    def state():
        modes = [m.training for m in model.modules()], hooks_of(model)
        return *modes, [(p.requires_grad, p.grad is None) for p in model.parameters()]

    def failing(m, batch):
        calls.append(batch)
        assert not any(module.training for module in m.modules())
        if fails:
            raise RuntimeError("stop")
        return loss(m, batch)

    before, calls = state(), []
    try:
        head_importance(model, [data, data], failing)
    except RuntimeError:
        assert fails
    assert len(calls) == (1 if fails else 2)  # one pass for each batch
    assert state() == before and (model.classifier.weight.grad == 3).all()


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_importance_needs_no_grad_mode_round_it_and_no_trainable_weight(around):
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    expected = head_importance(model, [data], loss)
    model.requires_grad_(False)
    with around():
        close(head_importance(model, [data], loss), expected)


def test_importance_of_some_heads_and_of_one_kind():
    """Of the heads left it is that of the smaller model."""
    model, data, loss = model_of("marian"), data_of("marian"), loss_of("marian")
    every, keep = head_importance(model, [data], loss), some_heads(6)
    close(head_importance(model, [data], loss, find_attention(model, "cross")), every[[3, 5]])
    with gated(model, keep):
        left = head_importance(model, [data], loss)
    assert (left[~keep] == 0).all() and (left[keep] > 0).all()
    # a grid as wide as the largest layer
    smaller = head_importance(remove_heads(model, keep), [data], loss)
    assert smaller.isnan().sum() == smaller.numel() - keep.sum()
    close(smaller[~smaller.isnan()], left[keep])


def test_layers_are_normalised_by_their_euclidean_norm():
    odd = torch.tensor([[0.0, 0.0], [3.0, 4.0], [2.0, torch.nan]])
    expected = torch.tensor([[0.0, 0.0], [0.6, 0.8], [1.0, torch.nan]])
    torch.testing.assert_close(normalise_by_layer(odd), expected, equal_nan=True)


def test_ablation_is_of_one_head_at_a_time_against_the_full_model():
    weight = torch.arange(1.0, 7.0).view(2, 3)
    seen = []

    def evaluate(xi):
        seen.append(int(xi.sum()))
        return float((weight * xi).sum())

    torch.testing.assert_close(ablate_each(evaluate, 2, 3), -weight.double())
    assert sorted(seen) == [5] * 6 + [6]


def test_all_but_one_chooses_on_validation_and_reports_the_test():
    validation = torch.tensor([[1.0, 5.0, 2.0], [4.0, 4.0, 0.0]])  # equally good: the first
    test = torch.tensor([[9.0, 3.0, 9.0], [7.0, 8.0, 9.0]])
    tested = []

    def on_test(xi):
        tested.append(xi)
        return float((test * xi).sum())

    result = all_but_one(lambda xi: float((validation * xi).sum()), on_test, 2, 3)
    assert result == [(1, 3.0 - 21.0), (0, 7.0 - 24.0)]
    # the full model and one choice for each layer: the test data choose nothing
    assert len(tested) == 3


def test_heads_are_scored_anew_and_never_come_back():
    model, inputs = model_of("bert"), inputs_of("bert")
    first = torch.tensor([[1.0, 2.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]])
    # would bring two back
    then = torch.tensor([[9.0, 9.0, 3.0, 9.0], [9.0, 9.0, 9.0, 4.0], [9.0, 9.0, 9.0, 9.0]])
    seen, trained = [], []

    def score(m):
        seen.append(outputs(m, inputs))
        return first if len(seen) == 1 else then

    masks = prune_heads_iteratively(
        model, score, [2, 4], lambda m: trained.append(outputs(m, inputs))
    )
    gone = [[0, 0], [0, 1], [0, 2], [1, 3]]
    assert [(~m).nonzero().tolist() for m in masks] == [gone[:2], gone]
    assert torch.equal(seen[0], outputs(model, inputs))
    close(seen[1], outputs(remove_heads(model, masks[0]), inputs))  # scored with the first two gone
    close(trained[1], outputs(remove_heads(model, masks[1]), inputs))
    assert lowest_heads(first, 4).tolist() != masks[1].tolist()
