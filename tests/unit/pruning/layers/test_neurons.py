"""Single neurons of feed-forward parts: scored, and cut out."""

import pytest
import torch
from torch.nn import functional as F

from course_lib.models.conv1d import sizes
from course_lib.models.mlps import find_mlps
from course_lib.pruning.layers import ffn_importance, remove_mlps, slice_ffn
from unit.small_transformers import FAMILIES, inputs_of, model_of, outputs


def widths(model):
    return [sizes(model.get_submodule(mlp.out))[0] for mlp in find_mlps(model)]


def drawn(model, kept=0.5):
    generator = torch.Generator().manual_seed(0)
    masks = [torch.rand(width, generator=generator) < kept for width in widths(model)]
    for mask in masks:
        mask[0] = True
    return masks


@pytest.mark.parametrize("family", ["bert", "torchvision vit"])
def test_a_narrower_model_computes_what_the_wide_one_does_with_those_neurons_at_0(family):
    model, inputs = model_of(family), inputs_of(family)
    before, keep = outputs(model, inputs), drawn(model)
    hooks = [
        model.get_submodule(mlp.out).register_forward_pre_hook(
            lambda _, x, k=kept: (x[0] * k, *x[1:])
        )
        for mlp, kept in zip(find_mlps(model), keep, strict=True)
    ]
    off = outputs(model, inputs)
    for hook in hooks:
        hook.remove()
    smaller = slice_ffn(model, keep)
    assert torch.allclose(outputs(smaller, inputs), off, atol=1e-10) and not torch.allclose(
        off, before
    )
    assert widths(smaller) == [int(kept.sum()) for kept in keep]
    assert torch.equal(outputs(model, inputs), before)
    again = slice_ffn(smaller, [torch.ones(width, dtype=torch.bool) for width in widths(smaller)])
    assert torch.equal(outputs(again, inputs), outputs(smaller, inputs))
    assert [p.requires_grad for p in smaller.parameters()] == [
        p.requires_grad for p in model.parameters()
    ]


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_neurons_of_what_removal_of_parts_has_left(family):
    model, inputs = model_of(family).eval(), inputs_of(family)
    parts = torch.ones(len(find_mlps(model)), dtype=torch.bool)
    parts[1] = False
    without = remove_mlps(model, parts)
    assert widths(without)[1] == 0
    keep = [mask[:width] for mask, width in zip(drawn(model), widths(without), strict=True)]
    one_way = outputs(slice_ffn(without, keep), inputs)
    other_way = outputs(remove_mlps(slice_ffn(model, drawn(model)), parts), inputs)
    assert torch.equal(one_way, other_way)
    assert torch.equal(outputs(remove_mlps(without, parts), inputs), outputs(without, inputs))


def test_importance_of_neurons_that_removal_of_parts_has_left():
    model, inputs = model_of("bert").double().eval(), inputs_of("bert")
    without = remove_mlps(model, torch.tensor([True, False, True]))
    found = ffn_importance(without, [inputs], losses)
    assert [len(part) for part in found] == widths(without)
    assert found[0].min() > 0


def losses(model, batch):
    logits = model(**batch).logits
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64), reduction="none")


def test_importance_is_the_mean_size_of_each_samples_gradient_by_a_gate():
    model, inputs = model_of("bert").double().eval(), inputs_of("bert")
    found = ffn_importance(model, [inputs], losses)
    mlps = find_mlps(model)
    for part in range(len(mlps)):
        total = torch.zeros(widths(model)[part], dtype=torch.float64)
        for i in range(len(inputs["input_ids"])):
            one = {name: value[i : i + 1] for name, value in inputs.items()}
            gate = torch.ones(len(total), dtype=torch.float64, requires_grad=True)
            hook = model.get_submodule(mlps[part].out).register_forward_pre_hook(
                lambda _, x, g=gate: (x[0] * g, *x[1:])
            )
            total += torch.autograd.grad(losses(model, one).sum(), gate)[0].abs()
            hook.remove()
        assert torch.allclose(found[part], total / len(inputs["input_ids"]))
    halves = [
        {name: value[:1] for name, value in inputs.items()},
        {name: value[1:] for name, value in inputs.items()},
    ]
    for whole, parts in zip(found, ffn_importance(model, halves, losses), strict=True):
        assert torch.allclose(whole, parts)
    assert all(p.grad is None for p in model.parameters())
