"""Heads are scored by the slope of each sample's loss, and scored anew as they go."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.pruning.heads import (
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


def batches_of(data, sizes):
    parts = torch.arange(sum(sizes)).split(sizes)
    return [{name: x[part] for name, x in data.items()} for part in parts]


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


def test_it_is_not_the_slope_of_the_batch():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    xi = torch.ones(3, HEADS, dtype=torch.float64, requires_grad=True)
    with gated(model, xi):
        (of_batch,) = torch.autograd.grad(loss(model, data).mean(), [xi])
    importance = head_importance(model, [data], loss)
    assert (importance >= of_batch.abs() - 1e-12).all()
    assert (importance > 1.05 * of_batch.abs()).any()


@pytest.mark.parametrize("family", [*TEXT_CLASSIFIERS, "marian", "t5"])
def test_padding_changes_nothing(family):
    model, data, loss = model_of(family), data_of(family), loss_of(family)
    padded = dict(data)
    for name in ("input_ids", "attention_mask"):
        padded[name] = F.pad(data[name], (0, 5))
    close(head_importance(model, [padded], loss), head_importance(model, [data], loss), atol=1e-10)
    keep = some_heads(len(find_attention(model)))
    smaller = remove_heads(model, keep)
    inputs = [{name: x for name, x in d.items() if name != "labels"} for d in (padded, data)]
    close(outputs(smaller, inputs[0]), outputs(smaller, inputs[1]), atol=1e-10)


def test_one_forward_and_one_backward_pass_for_each_batch(monkeypatch):
    model, data, calls = model_of("bert"), data_of("bert"), []
    slope = torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd, "grad", lambda *args, **how: calls.append("back") or slope(*args, **how)
    )
    model.register_forward_hook(lambda *_: calls.append("forth"))
    head_importance(model, batches_of(data, [4, 4]), loss_of("bert"))
    assert calls == ["forth", "back"] * 2


@pytest.mark.parametrize("fails", [False, True])
def test_modes_gradients_and_hooks_are_left_as_they_were(fails):
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    model.train()
    model.bert.pooler.eval()
    model.bert.embeddings.requires_grad_(False)
    model.classifier.weight.grad = torch.full_like(model.classifier.weight, 3.0)
    modes = [m.training for m in model.modules()]
    wanted = [p.requires_grad for p in model.parameters()]
    before = hooks_of(model)

    def failing(m, batch):
        assert not any(module.training for module in m.modules())
        if fails:
            raise RuntimeError("stop")
        return loss(m, batch)

    try:
        head_importance(model, [data], failing)
    except RuntimeError:
        assert fails
    assert [m.training for m in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == wanted
    assert hooks_of(model) == before
    assert (model.classifier.weight.grad == 3).all()
    assert all(p.grad is None for p in model.bert.parameters())


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_importance_needs_no_grad_mode_round_it_and_no_trainable_weight(around):
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    expected = head_importance(model, [data], loss)
    model.requires_grad_(False)
    with around():
        close(head_importance(model, [data], loss), expected)


def test_importance_of_the_heads_left_is_that_of_the_smaller_model():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    keep = some_heads(3)
    with gated(model, keep):
        gated_off = head_importance(model, [data], loss)
    assert (gated_off[~keep] == 0).all() and (gated_off[keep] > 0).all()
    # a grid as wide as the largest layer
    smaller = head_importance(remove_heads(model, keep), [data], loss)
    assert smaller.isnan().sum() == smaller.numel() - keep.sum()
    close(torch.cat([row[~row.isnan()] for row in smaller]), gated_off[keep])


def test_importance_of_one_kind():
    model, data, loss = model_of("marian"), data_of("marian"), loss_of("marian")
    everything = head_importance(model, [data], loss)
    close(head_importance(model, [data], loss, find_attention(model, "cross")), everything[[3, 5]])


def test_layers_are_normalised_by_their_euclidean_norm():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    raw = head_importance(model, [data], loss)
    normal = normalise_by_layer(raw)
    close(normal.square().sum(1), torch.ones(3, dtype=torch.float64))
    close(normal * raw.norm(dim=1, keepdim=True), raw)
    odd = torch.tensor([[0.0, 0.0], [3.0, 4.0], [2.0, torch.nan]])
    expected = torch.tensor([[0.0, 0.0], [0.6, 0.8], [1.0, torch.nan]])
    torch.testing.assert_close(normalise_by_layer(odd), expected, equal_nan=True)


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
    assert [(~m).nonzero().tolist() for m in masks] == [
        [[0, 0], [0, 1]],
        [[0, 0], [0, 1], [0, 2], [1, 3]],
    ]
    assert torch.equal(seen[0], outputs(model, inputs))
    close(seen[1], outputs(remove_heads(model, masks[0]), inputs))  # scored with the first two gone
    close(trained[1], outputs(remove_heads(model, masks[1]), inputs))
    assert lowest_heads(first, 4).tolist() != masks[1].tolist()


def test_iterative_pruning_by_importance():
    model, data, loss = model_of("bert"), data_of("bert"), loss_of("bert")
    masks = prune_heads_iteratively(
        model, lambda m: head_importance(m, [data], loss), [3, 6, 9], min_per_layer=1
    )
    assert [int((~m).sum()) for m in masks] == [3, 6, 9]
    assert all((m.sum(1) >= 1).all() for m in masks)
    assert all((b <= a).all() for a, b in zip(masks, masks[1:], strict=False))
    assert torch.equal(masks[0], lowest_heads(head_importance(model, [data], loss), 3, 1))
    smaller = remove_heads(model, masks[0])  # on a model with unequal layers
    (more,) = prune_heads_iteratively(smaller, lambda m: head_importance(m, [data], loss), [2])
    with gated(smaller, more):
        expected = outputs(smaller, inputs_of("bert"))
    close(outputs(remove_heads(smaller, more), inputs_of("bert")), expected)
