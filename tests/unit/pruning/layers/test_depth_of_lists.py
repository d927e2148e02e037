"""What a configuration lists for every layer is cut with the layers: lists of kinds that the
conformance suite does not have.
"""

import copy

import pytest
import torch
from torch import nn

from course_lib.pruning.layers import layers_to_keep, take_layers
from unit.conformance.operations import _handing_on

TEXT = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2}
IMAGE = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 6}
IMAGE |= {"num_attention_heads": 4, "intermediate_size": 48}


def build(name):
    import transformers as t

    return {
        # numbers of layers in place of an entry for each
        "qwen 3 of experts": lambda: (
            t.Qwen3MoeForCausalLM(
                t.Qwen3MoeConfig(
                    **GROUPED, mlp_only_layers=[0, 2], num_experts=4, num_experts_per_tok=2,
                    moe_intermediate_size=16,
                )
            ),
            "model.layers",
        ),
        # a backbone names its stages, and which of them it puts out
        "dinov2": lambda: (
            t.Dinov2ForImageClassification(t.Dinov2Config(**IMAGE, out_indices=[2, 5])),
            "dinov2.encoder.layer",
        ),
    }[name]()  # fmt: skip


def inputs(name):
    g = torch.Generator().manual_seed(0)
    if name == "dinov2":
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=g)}
    return {"input_ids": torch.randint(4, 60, (2, 12), generator=g)}


@pytest.mark.parametrize("depth", [3, 2])
@pytest.mark.parametrize("name", ["qwen 3 of experts", "dinov2"])
def test_the_smaller_model_computes_without_the_other_layers_and_comes_back(name, depth, tmp_path):
    torch.manual_seed(0)
    model, path = build(name)
    model.eval()
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            nn.init.normal_(parameter, 0, 0.15)
    batch, said = inputs(name), copy.deepcopy(model.config.to_dict())
    smaller = take_layers(model, path, depth)
    with torch.no_grad(), _handing_on(model, path, layers_to_keep(6, depth)):
        expected = model(**batch).logits
    with torch.no_grad():
        got = smaller(**batch).logits
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    assert model.config.to_dict() == said
    smaller.save_pretrained(tmp_path)
    again, found = type(smaller).from_pretrained(tmp_path, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(**batch).logits, got, atol=1e-5, rtol=0)


def test_stages_that_a_backbone_puts_out_follow_their_layers():
    model, path = build("dinov2")
    config = take_layers(model, path, 3).config  # layers 0, 2 and 4
    assert config.stage_names == ["stem", "stage1", "stage2", "stage3"]
    # after layers 0 and 1 one layer has run, after layers 0 to 4 three have
    assert config.out_indices == [1, 3] and config.out_features == ["stage1", "stage3"]


def test_flags_of_layers_are_no_places():
    import transformers as t

    config = t.SmolLM3Config(**GROUPED | {"num_hidden_layers": 2}, no_rope_layers=[0, 1])
    smaller = take_layers(t.SmolLM3Model(config), "layers", [1])
    assert smaller.config.no_rope_layers == [1] and smaller.layers[0].self_attn.use_rope == 1


def vision(family, **lists):
    """The image encoder of a language model: its module holds the list, too."""
    import importlib

    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    name = next(
        n for n in dir(module) if n.endswith(("VLVisionModel", "TransformerPretrainedModel"))
    )
    cls = getattr(module, name)
    sizes = {"depth": 4, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4}
    return cls(cls.config_class(**sizes, out_hidden_size=32, patch_size=4, **lists))


def test_places_that_a_module_holds_follow_their_layers(tmp_path):
    model = vision("qwen2_5_vl", fullatt_block_indexes=[1, 3])
    smaller = take_layers(model, "blocks", [1, 2, 3])
    assert model.fullatt_block_indexes == model.config.fullatt_block_indexes == [1, 3]
    assert smaller.fullatt_block_indexes == smaller.config.fullatt_block_indexes == [0, 2]
    smaller.save_pretrained(tmp_path)
    _, found = type(smaller).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(found.values())


def test_a_model_that_reads_the_states_after_some_layers_is_refused():
    with pytest.raises(ValueError, match="'blocks' cannot be cut.*deepstack_visual_indexes"):
        take_layers(vision("qwen3_vl", deepstack_visual_indexes=[1, 2]), "blocks", 2)


def test_every_index_follows_whatever_its_name():
    class Inner(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.number_of_mine, self.width, self.on = i, 3, bool(i)

    class Layer(nn.Module):
        def __init__(self, i):
            super().__init__()
            self.inner, self.layer_id = Inner(i), i

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.num_layers = nn.ModuleList([Layer(i) for i in range(6)]), 6

    smaller = take_layers(take_layers(Model(), "layers", 4), "layers", 2)  # 0 1 3 4, then 0 3
    assert [layer.layer_id for layer in smaller.layers] == [0, 1]
    assert [layer.inner.number_of_mine for layer in smaller.layers] == [0, 1]
    assert {layer.inner.width for layer in smaller.layers} == {3} and smaller.num_layers == 2
    assert smaller.layers.kept_layers == (0, 3)


def test_layers_that_share_weights_or_compute_with_their_index_are_refused():
    import transformers as t

    albert = t.AlbertModel(t.AlbertConfig(**TEXT, embedding_size=16))
    with pytest.raises(ValueError, match="share their weights; lower config.num_hidden_layers"):
        take_layers(albert, "encoder.albert_layer_groups", 1)
    gpt2 = t.GPT2LMHeadModel(
        t.GPT2Config(
            n_embd=32, n_layer=4, n_head=4, vocab_size=60, scale_attn_by_inverse_layer_idx=True
        )
    )
    with pytest.raises(ValueError, match="layer 2 of 'transformer.h' would be layer 1.*scaling"):
        take_layers(gpt2, "transformer.h", 2)
