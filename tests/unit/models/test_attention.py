"""Attention is found in every family, and what is unknown is refused."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from course_lib.models import families
from course_lib.models.families import register
from course_lib.models.mlps import find_mlps
from course_lib.pruning.heads import (
    explicit_attention,
    find_attention,
    gated,
    output_projections,
    remove_heads,
)
from unit.small_transformers import FAMILIES, HEADS, KINDS, SIZE, E, inputs_of, model_of, outputs


@pytest.fixture(autouse=True)
def own_table(monkeypatch):
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))


def gateable(family):
    return explicit_attention(model_of(family))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_attention_module_is_found_in_the_order_of_its_calls(family):
    model = gateable(family)
    found, seen = find_attention(model), []
    assert [a.kind for a in found] == KINDS.get(family, ["encoder"] * 3)
    assert {(a.heads, a.head_size) for a in found} == {(HEADS, SIZE)}
    assert all(a.fused == family.startswith("gpt2") for a in found)
    for a, out in zip(found, output_projections(model), strict=True):
        assert out is model.get_submodule(a.out)
        out.register_forward_pre_hook(
            lambda module, args, name=a.name: seen.append((name, args[0].shape[-1]))
        )
    outputs(model, inputs_of(family))
    assert seen == [(a.name, HEADS * SIZE) for a in found]


def test_one_kind_alone():
    model = model_of("marian")
    assert [a.name for a in find_attention(model, "cross")] == [
        f"model.decoder.layers.{i}.encoder_attn" for i in (0, 1)
    ]
    assert len(output_projections(model, "decoder")) == 2
    with pytest.raises(ValueError, match="has no cross attention.*encoder attention"):
        find_attention(model_of("bert"), "cross")
    with pytest.raises(ValueError, match="encoder, decoder, cross"):
        find_attention(model, "self")


def test_the_kinds_of_t5_are_known_without_is_causal():
    model = model_of("t5")
    for module in model.modules():  # as in transformers 5.10
        vars(module).pop("is_causal", None)
    assert [a.kind for a in find_attention(model)] == KINDS["t5"]


def test_a_part_of_a_model_and_a_module_round_it_will_do():
    model = model_of("bert")
    assert len(find_attention(model.bert.encoder)) == len(find_attention(nn.Sequential(model))) == 3
    alone = model.bert.encoder.layer[0].attention
    assert find_attention(alone)[0].out == "output.dense"
    of_bart = find_attention(model_of("bart").model.encoder.layers[0].self_attn)[0]
    assert (of_bart.name, of_bart.out) == ("", "out_proj")


def test_a_subclass_is_found():
    from transformers.models.bert.modeling_bert import BertSelfAttention

    class Mine(BertSelfAttention):
        pass

    model = model_of("bert")
    for layer in model.bert.encoder.layer:
        layer.attention.self.__class__ = Mine
    assert len(find_attention(model)) == 3


def test_a_row_needs_a_layout():
    with pytest.raises(ValueError, match="what its parts are called"):
        register(OwnAttention)


def test_an_unknown_model_is_refused_until_it_is_registered():
    model, inputs = model_of("bloom"), inputs_of("bloom")
    name = "transformers.models.bloom.modeling_bloom.BloomAttention"
    row = families.TABLE.pop(name)
    with pytest.raises(
        ValueError, match=rf"BloomAttention, which is not registered.*register\(\"{name}"
    ):
        find_attention(model)
    register(name, attention=row.attention)
    keep = torch.ones(3, HEADS, dtype=torch.bool)
    keep[:, 1] = False
    with gated(model, keep):
        expected = outputs(model, inputs)
    torch.testing.assert_close(outputs(remove_heads(model, keep), inputs), expected)


class OwnAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(E, 3 * E), nn.Linear(E, E)


def test_known_attention_beside_unknown_is_refused_not_pruned_in_part():
    model = nn.ModuleDict({"encoder": model_of("bert").bert, "pooling": OwnAttention()})
    with pytest.raises(
        ValueError, match="'pooling' is a .*OwnAttention, which is not registered.*pass the part"
    ):
        find_attention(model)
    assert len(find_attention(model["encoder"])) == 3
    with pytest.raises(
        ValueError, match="Sequential has no attention .* Known are AlbertAttention"
    ):
        find_attention(nn.Sequential(nn.Linear(3, 3)))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"out": "output"}, r"a projection 'vit\.layers\.0\.attention\.output', but there is none"),
        ({"heads": "scaling"}, r"a number 'scaling', got 0\.35"),
        ({"heads": "head_dim"}, "8 heads, its 'head_dim', but .* reads 4 heads of 8"),
    ],
)
def test_a_wrong_description_is_noticed(change, match):
    name = "transformers.models.vit.modeling_vit.ViTAttention"
    register(name, attention=replace(families.TABLE[name].attention[0], **change))
    with pytest.raises(ValueError, match=match):
        find_attention(model_of("vit"))


def test_a_module_that_does_not_call_its_output_layer_is_refused():
    model = model_of("bloom")
    for block in model.transformer.h:
        block.self_attention.slow_but_exact = block.mlp.slow_but_exact = True
    for find in (find_attention, find_mlps):
        with pytest.raises(ValueError, match="does not call it.*set slow_but_exact"):
            find(model)
