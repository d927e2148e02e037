"""Attention is found in every family, what is unknown is refused, and nn.MultiheadAttention is replaced by its equal."""

import copy

import pytest
import torch
from torch import nn

from course_lib.models import attention as registry
from course_lib.pruning.heads import (
    ExplicitAttention,
    Layout,
    explicit_attention,
    find_attention,
    gated,
    output_projections,
    register_attention,
    remove_heads,
)
from unit.small_transformers import FAMILIES, HEADS, KINDS, SIZE, E, inputs_of, model_of, outputs


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))


def gateable(family):
    return explicit_attention(model_of(family))


# --------------------------------------------------------------------------------------------------------------- registry
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
        out.register_forward_pre_hook(lambda module, args, name=a.name: seen.append((name, args[0].shape[-1])))
    outputs(model, inputs_of(family))
    assert seen == [(a.name, HEADS * SIZE) for a in found]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_projections_it_names_are_those_of_the_module(family):
    model = gateable(family)
    for a in find_attention(model):
        parts = [model.get_submodule(path) for path in (a.q, a.k, a.v, a.out)]
        made = {id(p): p.weight.numel() for p in parts}
        assert sum(made.values()) == 4 * E * E  # all four, and nothing twice


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


def mbart():
    from transformers import MBartConfig, MBartModel

    torch.manual_seed(0)
    model = MBartModel(
        MBartConfig(
            d_model=E,
            encoder_layers=2,
            decoder_layers=1,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            vocab_size=50,
            max_position_embeddings=40,
        )
    )
    return model.double().eval()


def test_an_unknown_model_is_refused_until_it_is_registered():
    model = mbart()
    with pytest.raises(
        ValueError, match=r"MBartAttention, which is not registered.*register_attention\(\"transformers"
    ):
        find_attention(model)
    parts = Layout("q_proj", "k_proj", "v_proj", "out_proj", heads="num_heads", head_size="head_dim")
    register_attention("transformers.models.mbart.modeling_mbart.MBartAttention", parts)
    keep = torch.ones(4, HEADS, dtype=torch.bool)
    keep[:, 1] = False
    keep[2] = False
    inputs = {"input_ids": torch.randint(5, 50, (2, 6))}
    with gated(model, keep), torch.no_grad():
        expected = model(**inputs).last_hidden_state
    with torch.no_grad():
        full, smaller = model(**inputs).last_hidden_state, remove_heads(model, keep)(**inputs).last_hidden_state
    torch.testing.assert_close(smaller, expected, rtol=0, atol=1e-12)
    assert not torch.allclose(full, expected, atol=1e-3)


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
    with pytest.raises(ValueError, match="'pooling' is a .*OwnAttention, which is not registered.*pass the part"):
        find_attention(model)
    assert len(find_attention(model.encoder)) == 3


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="Sequential has no attention that is known here; known are BartAttention"):
        find_attention(nn.Sequential(nn.Linear(3, 3)))


def test_a_wrong_description_is_noticed():
    name = "transformers.models.vit.modeling_vit.ViTAttention"
    parts = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "heads": "num_attention_heads", "head_size": "head_dim"}
    register_attention(name, Layout(**parts, out="output"))
    with pytest.raises(ValueError, match="has a projection 'vit.layers.0.attention.output', but there is none"):
        find_attention(model_of("vit"))
    register_attention(name, Layout(**(parts | {"heads": "scaling"}), out="o_proj"))
    with pytest.raises(ValueError, match="has a number 'scaling', got 0.35"):
        find_attention(model_of("vit"))
    with pytest.raises(ValueError, match="what are its parts called|how are its parts called"):
        register_attention(name)


# ----------------------------------------------------------------------------------------------- nn.MultiheadAttention
MODULES = {
    "plain": {},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
    "other keys and values": {"kdim": 20, "vdim": 12, "batch_first": True},
    "one more key": {"add_bias_kv": True},
    "a zero key": {"add_zero_attn": True, "batch_first": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
}
MASKS = ["none", "padding", "padding as numbers", "causal", "causal hint", "for each head", "both"]


def mha(seed=0, **options):
    torch.manual_seed(seed)
    module = nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **options)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0, 0.3)
    return module.eval()


def masks_of(which, tgt, src, batch):
    padding = torch.zeros(batch, src, dtype=torch.bool)
    padding[0, -2:] = True
    causal = torch.ones(tgt, src, dtype=torch.bool).triu(1)
    if which == "padding":
        return {"key_padding_mask": padding}
    if which == "padding as numbers":
        return {"key_padding_mask": torch.randn(batch, src, dtype=torch.float64)}
    if which == "causal":
        return {"attn_mask": causal}
    if which == "causal hint":
        return {"attn_mask": causal, "is_causal": True}
    if which == "for each head":
        return {"attn_mask": torch.randn(batch * HEADS, tgt, src, dtype=torch.float64)}
    if which == "both":
        return {"key_padding_mask": padding, "attn_mask": causal}
    return {}


@pytest.mark.parametrize("options", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("returned", [{"need_weights": False}, {}, {"average_attn_weights": False}], ids=str)
def test_explicit_attention_equals_multihead_attention(options, masks, returned):
    module = mha(**options)
    mine = ExplicitAttention(module)
    tgt, src, batch = (6, 6, 3) if masks == "causal hint" else (5, 6, 3)
    shape = (lambda n, d: (batch, n, d)) if module.batch_first else (lambda n, d: (n, batch, d))
    q = torch.randn(*shape(tgt, E), dtype=torch.float64)
    k, v = (torch.randn(*shape(src, d), dtype=torch.float64) for d in (module.kdim, module.vdim))
    arguments = masks_of(masks, tgt, src, batch) | returned
    for expected, got in zip(module(q, k, v, **arguments), mine(q, k, v, **arguments), strict=True):
        assert (expected is None) == (got is None)
        if expected is not None:
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_explicit_attention_without_a_batch():
    module = mha(batch_first=True)
    x = torch.randn(6, E, dtype=torch.float64)
    arguments = {"key_padding_mask": torch.arange(6) > 3, "attn_mask": torch.randn(HEADS, 6, 6, dtype=torch.float64)}
    for expected, got in zip(
        module(x, x, x, **arguments), ExplicitAttention(module)(x, x, x, **arguments), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_explicit_attention_has_the_same_gradients():
    module = mha()
    mine = ExplicitAttention(module)
    x = torch.randn(6, 3, E, dtype=torch.float64)
    for m in (module, mine):
        m(x, x, x)[0].square().sum().backward()
    packed = torch.cat([mine.q_proj.weight.grad, mine.k_proj.weight.grad, mine.v_proj.weight.grad])
    torch.testing.assert_close(packed, module.in_proj_weight.grad, rtol=0, atol=1e-10)
    torch.testing.assert_close(mine.out_proj.bias.grad, module.out_proj.bias.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("need_weights", [True, False])
def test_explicit_attention_drops_out_only_while_training(need_weights):
    mine = ExplicitAttention(mha(dropout=0.5))
    x = torch.randn(6, 3, E, dtype=torch.float64)
    assert torch.equal(*(mine(x, x, x, need_weights=need_weights)[0] for _ in range(2)))
    mine.train()
    assert not torch.equal(*(mine(x, x, x, need_weights=need_weights)[0] for _ in range(2)))


def test_explicit_attention_refuses_what_multihead_attention_refuses():
    mine = ExplicitAttention(mha())
    x = torch.randn(6, 3, E, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="attn_mask must be given"):
        mine(x, x, x, is_causal=True)
    with pytest.raises(RuntimeError, match=r"B · heads is 3 · 4; got \(5, 6, 6\)"):
        mine(x, x, x, attn_mask=torch.zeros(5, 6, 6, dtype=torch.bool))
    with pytest.raises(TypeError, match="bool, True = not attended to"):
        mine(x, x, x, attn_mask=torch.zeros(6, 6, dtype=torch.long))


def test_multihead_attention_itself_is_refused_with_the_way_out():
    model = model_of("torchvision vit")
    with pytest.raises(ValueError, match="never calls its output projection.*explicit_attention"):
        find_attention(model)


def test_a_hook_on_its_projection_never_fires_which_is_why():
    fired = []
    for module in (mha(), ExplicitAttention(mha())):
        module.out_proj.register_forward_pre_hook(lambda *_, m=module: fired.append(type(m)))
        x = torch.randn(6, 3, E, dtype=torch.float64)
        module(x, x, x)
    assert fired == [ExplicitAttention]


def stacks():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, HEADS, 48, batch_first=True, dtype=torch.float64)
    yield nn.TransformerEncoder(layer, 2)
    yield nn.TransformerEncoder(nn.TransformerEncoderLayer(E, HEADS, 48, norm_first=True, dtype=torch.float64), 2)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize("grad", [True, False])
def test_an_encoder_of_torch_computes_the_same_with_explicit_attention(i, grad):
    model = list(stacks())[i].eval()
    explicit = explicit_attention(model)
    x = torch.randn(4, 4, E, dtype=torch.float64)
    padding = torch.arange(4) >= torch.tensor([4, 3, 2, 4])[:, None]
    with torch.set_grad_enabled(grad):
        for arguments in ({}, {"src_key_padding_mask": padding}):
            expected, got = (m(x, **arguments) for m in (model, explicit))
            real = ~padding if i == 0 else ~padding.T
            torch.testing.assert_close(got[real], expected[real], rtol=0, atol=1e-12)
    xi = torch.ones(2, HEADS)
    with gated(explicit, xi), torch.set_grad_enabled(grad):
        torch.testing.assert_close(explicit(x), explicit_attention(model)(x), rtol=0, atol=1e-12)
    xi[:, 0] = 0
    with gated(explicit, xi), torch.set_grad_enabled(grad):
        torch.testing.assert_close(explicit(x), remove_heads(model, xi > 0)(x), rtol=0, atol=1e-12)


def test_an_encoder_decoder_of_torch_has_three_kinds():
    model = nn.Transformer(E, HEADS, 1, 1, 48, batch_first=True, dtype=torch.float64).eval()
    explicit = explicit_attention(model)
    assert [(a.name, a.kind == "cross") for a in find_attention(explicit)] == [
        ("encoder.layers.0.self_attn", False),
        ("decoder.layers.0.self_attn", False),
        ("decoder.layers.0.multihead_attn", True),
    ]
    source, target = torch.randn(2, 5, E, dtype=torch.float64), torch.randn(2, 4, E, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    expected, got = (m(source, target, tgt_mask=mask, tgt_is_causal=True) for m in (model, explicit))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_replacing_leaves_the_given_model_and_keeps_what_is_shared_and_frozen():
    shared = mha(batch_first=True)
    shared.in_proj_weight.requires_grad_(False)
    model = nn.ModuleList([shared, shared, nn.Linear(2, 2)])
    before = copy.deepcopy(model.state_dict())
    explicit = explicit_attention(model)
    assert explicit[0] is explicit[1] and isinstance(explicit[0], ExplicitAttention)
    assert not explicit[0].q_proj.weight.requires_grad and explicit[0].q_proj.bias.requires_grad
    assert model[0] is shared and isinstance(shared, nn.MultiheadAttention)
    explicit[0].q_proj.weight.data.zero_()
    explicit[2].weight.data.zero_()
    torch.testing.assert_close(model.state_dict(), before)
    assert isinstance(explicit_attention(shared), ExplicitAttention)


def test_torchvision_computes_the_same_with_explicit_attention():
    model, inputs = model_of("torchvision vit"), inputs_of("torchvision vit")
    torch.testing.assert_close(outputs(explicit_attention(model), inputs), outputs(model, inputs), rtol=0, atol=1e-12)
