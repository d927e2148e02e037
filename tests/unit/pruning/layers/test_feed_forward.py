"""Feed-forward parts and their neurons: gated, scored, removed. The conformance test has the
families of transformers.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.models import families
from course_lib.models.conv1d import sizes
from course_lib.models.families import FeedForward, register
from course_lib.models.mlps import find_mlps, mlp_outputs
from course_lib.pruning.heads import explicit_attention, gated, head_importance
from course_lib.pruning.layers import (
    ffn_importance,
    gated_mlps,
    joint_importance,
    remove_mlps,
    slice_ffn,
)
from unit.small_transformers import FAMILIES, gateable, inputs_of, model_of, outputs

INPUTS = inputs_of("bert")
EACH = [{name: part[i : i + 1] for name, part in INPUTS.items()} for i in range(3)]
SOME = torch.tensor([True, False, True])


def widths(model):
    return [sizes(out)[0] for out in mlp_outputs(model)]


def some_neurons(model):
    return [torch.arange(width) % 3 != 1 for width in widths(model)]


def losses(model, batch):
    logits = model(**batch).logits
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64), reduction="none")


def test_what_is_gated_off_in_torchvisions_transformer_is_as_if_it_were_not_there():
    model, inputs = gateable("torchvision vit"), inputs_of("torchvision vit")
    before, keep = outputs(model, inputs), some_neurons(model)
    with gated_mlps(model, SOME):
        off = outputs(model, inputs)
    assert not torch.allclose(off, before)
    assert torch.allclose(outputs(remove_mlps(model, SOME), inputs), off, atol=1e-10)
    zeroed = copy.deepcopy(model)
    for out, kept in zip(mlp_outputs(zeroed), keep, strict=True):
        out.weight.data[:, ~kept] = 0
    smaller = slice_ffn(model, keep)
    assert torch.allclose(outputs(smaller, inputs), outputs(zeroed, inputs), atol=1e-10)
    assert widths(smaller) == [int(kept.sum()) for kept in keep]
    assert torch.equal(outputs(model, inputs), before)


def test_importance_is_the_mean_size_of_each_samples_gradient_by_a_gate():
    model = model_of("bert").train()
    heads, mlps = joint_importance(model, [INPUTS], losses)
    neurons = torch.stack(ffn_importance(model, [INPUTS], losses))
    assert model.training and all(p.grad is None for p in model.parameters())
    assert torch.allclose(heads, head_importance(model, [INPUTS], losses))
    again = joint_importance(model, EACH, losses)
    assert torch.allclose(again[0], heads) and torch.allclose(again[1], mlps)
    assert torch.allclose(torch.stack(ffn_importance(model, EACH, losses)), neurons)

    model.eval()
    of_part, of_neuron = torch.zeros_like(mlps), torch.zeros_like(neurons)
    for batch in EACH:
        nu = torch.ones_like(mlps, requires_grad=True)
        ones = torch.ones_like(neurons, requires_grad=True)
        hooks = [
            out.register_forward_pre_hook(lambda _, x, gate=gate: (x[0] * gate,))
            for out, gate in zip(mlp_outputs(model), ones, strict=True)
        ]
        with gated_mlps(model, nu):
            losses(model, batch).sum().backward()
        for hook in hooks:
            hook.remove()
        of_part += nu.grad.abs() / 3
        of_neuron += ones.grad.abs() / 3
    assert torch.allclose(mlps, of_part) and torch.allclose(neurons, of_neuron)


def test_importance_of_what_is_left():
    model = model_of("bert")
    with gated(model, torch.ones(3, 4)), gated_mlps(model, SOME.double()):
        _, mlps = joint_importance(model, [INPUTS], losses)
    assert mlps[1] == 0 and mlps[0] > 0
    found = ffn_importance(remove_mlps(model, SOME), [INPUTS], losses)
    assert [len(part) for part in found] == [48, 0, 48] and found[0].min() > 0


@pytest.mark.parametrize(
    "family", [FAMILIES[0], *(pytest.param(f, marks=pytest.mark.long) for f in FAMILIES[1:])]
)
def test_parts_and_neurons_go_in_either_order(family):
    model, inputs = model_of(family), inputs_of(family)
    parts = torch.arange(len(find_mlps(model))) != 1
    without, keep = remove_mlps(model, parts), some_neurons(model)
    one_way = slice_ffn(without, [k[:w] for k, w in zip(keep, widths(without), strict=True)])
    other_way = remove_mlps(slice_ffn(model, keep), parts)
    assert torch.equal(outputs(one_way, inputs), outputs(other_way, inputs))
    assert torch.equal(outputs(remove_mlps(without, parts), inputs), outputs(without, inputs))


def test_unknown_parts_can_be_registered(monkeypatch):
    class Mine(nn.Sequential):
        pass

    model = nn.Sequential(*(Mine(nn.Linear(3, 5), nn.Linear(5, 3)) for _ in range(2)))
    with pytest.raises(ValueError, match=r"register\("):
        find_mlps(model)
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    register(Mine, mlp=FeedForward(("0",), "1"))
    assert [mlp.out for mlp in find_mlps(model)] == ["0.1", "1.1"]


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("explicit", [False, True])
def test_parts_of_torchs_own_encoder(options, explicit):
    """In evaluation torch calls one fused function there, which reads the weights."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, **options)
    model = nn.TransformerEncoder(layer, 3).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, 0, 0.3)
    model = explicit_attention(model) if explicit else model
    x, padding = torch.randn(3, 6, 32), torch.zeros(3, 6, dtype=torch.bool)
    padding[0, 4:] = True
    for keep in (SOME, ~SOME, SOME & ~SOME):
        zeroed = copy.deepcopy(model)
        for layer, kept in zip(zeroed.layers, keep.tolist(), strict=True):
            for parameter in layer.linear2.parameters():
                parameter.data.mul_(float(kept))
        smaller = remove_mlps(model, keep)
        for given in ({}, {"src_key_padding_mask": padding}):
            with torch.no_grad():
                expected, got = zeroed(x, **given), smaller(x, **given)
                with gated_mlps(model, keep):
                    off = model(x, **given)
            real = ~padding if given else torch.ones_like(padding)
            torch.testing.assert_close(got[real], expected[real], atol=1e-5, rtol=0)
            torch.testing.assert_close(off[real], expected[real], atol=1e-5, rtol=0)
        smaller.train()(x).sum().backward()


def test_a_part_that_is_removed_is_not_made_again_by_transformers(tmp_path):
    remove_mlps(model_of("bert"), SOME).save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="(?i)size"):
        type(model_of("bert")).from_pretrained(tmp_path)
