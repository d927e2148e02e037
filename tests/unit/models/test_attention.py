"""Attention is found in every family, and what is unknown is refused."""

import pytest
import torch
from torch import nn

from course_lib.models import families
from course_lib.models.families import register
from course_lib.models.mlps import find_mlps
from course_lib.pruning.heads import (
    Layout,
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
def test_every_attention_module_is_found_in_the_order_of_the_layers(family):
    found = find_attention(gateable(family))
    assert [a.kind for a in found] == KINDS.get(family, ["encoder"] * 3)
    assert {(a.heads, a.head_size) for a in found} == {(HEADS, SIZE)}
    assert all(a.fused == family.startswith("gpt2") for a in found)


@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_called_in_that_order_and_their_output_projections_read_all_heads(family):
    model = gateable(family)
    found, seen = find_attention(model), []
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


class TwoTowers(nn.Module):
    """A known encoder beside attention of its own."""

    class OwnAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def __init__(self):
        super().__init__()
        self.encoder = model_of("bert").bert
        self.pooling = self.OwnAttention()


def test_known_attention_beside_unknown_is_refused_not_pruned_in_part():
    model = TwoTowers()
    with pytest.raises(
        ValueError, match="'pooling' is a .*OwnAttention, which is not registered.*pass the part"
    ):
        find_attention(model)
    assert len(find_attention(model.encoder)) == 3


def test_a_model_without_attention_is_refused():
    with pytest.raises(
        ValueError,
        match="Sequential has no attention that is known here; say what .* Known are AlbertAttention",
    ):
        find_attention(nn.Sequential(nn.Linear(3, 3)))


def test_a_wrong_description_is_noticed():
    name = "transformers.models.vit.modeling_vit.ViTAttention"
    parts = {
        "q": "q_proj",
        "k": "k_proj",
        "v": "v_proj",
        "heads": "num_attention_heads",
        "head_size": "head_dim",
    }
    register(name, attention=Layout(**parts, out="output"))
    with pytest.raises(
        ValueError, match="has a projection 'vit.layers.0.attention.output', but there is none"
    ):
        find_attention(model_of("vit"))
    register(name, attention=Layout(**(parts | {"heads": "scaling"}), out="o_proj"))
    with pytest.raises(ValueError, match="has a number 'scaling', got 0.35"):
        find_attention(model_of("vit"))
    with pytest.raises(ValueError, match="what its parts are called"):
        register(name)


def test_a_module_that_does_not_call_its_output_layer_is_refused():
    model = model_of("bloom")
    for block in model.transformer.h:
        block.self_attention.slow_but_exact = block.mlp.slow_but_exact = True
    for find in (find_attention, find_mlps):
        with pytest.raises(ValueError, match="does not call it.*set slow_but_exact"):
            find(model)
