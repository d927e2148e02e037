"""nn.MultiheadAttention is replaced by its equal, whose heads can be gated."""

import copy

import pytest
import torch
from torch import nn

from course_lib.pruning.heads import (
    ExplicitAttention,
    explicit_attention,
    find_attention,
    gated,
    remove_heads,
)
from unit.small_transformers import HEADS, E, close, model_of

MODULES = {
    "plain": {},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
    "other keys and values": {"kdim": 20, "vdim": 12, "batch_first": True},
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
@pytest.mark.parametrize(
    "returned", [{"need_weights": False}, {}, {"average_attn_weights": False}], ids=str
)
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
            close(got, expected)


def test_explicit_attention_has_the_same_gradients():
    module = mha()
    mine = ExplicitAttention(module)
    x = torch.randn(6, 3, E, dtype=torch.float64)
    for m in (module, mine):
        m(x, x, x)[0].square().sum().backward()
    packed = torch.cat([mine.q_proj.weight.grad, mine.k_proj.weight.grad, mine.v_proj.weight.grad])
    torch.testing.assert_close(packed, module.in_proj_weight.grad, rtol=0, atol=1e-10)
    torch.testing.assert_close(
        mine.out_proj.bias.grad, module.out_proj.bias.grad, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("need_weights", [True, False])
def test_explicit_attention_drops_out_only_while_training(need_weights):
    mine = ExplicitAttention(mha(dropout=0.5))
    x = torch.randn(6, 3, E, dtype=torch.float64)
    assert torch.equal(*(mine(x, x, x, need_weights=need_weights)[0] for _ in range(2)))
    mine.train()
    assert not torch.equal(*(mine(x, x, x, need_weights=need_weights)[0] for _ in range(2)))


X = torch.ones(6, 3, E, dtype=torch.float64)


@pytest.mark.parametrize(
    ("error", "argument", "call"),
    [
        (ValueError, "attention adds a key", lambda: explicit_attention(mha(add_bias_kv=True))),
        (ValueError, "attention adds a key", lambda: ExplicitAttention(mha(add_zero_attn=True))),
        (ValueError, "query", lambda: ExplicitAttention(mha())(X[0], X[0], X[0])),
        (ValueError, "attn_mask", lambda: ExplicitAttention(mha())(X, X, X, is_causal=True)),
        (RuntimeError, "3, 4", lambda: ExplicitAttention(mha())(X, X, X, attn_mask=X > 0)),
        (TypeError, "attn_mask", lambda: ExplicitAttention(mha())(X, X, X, attn_mask=X.long())),
        (ValueError, "explicit_attention", lambda: find_attention(model_of("torchvision vit"))),
    ],
)
def test_it_is_refused_by_name(error, argument, call):
    with pytest.raises(error, match=argument):
        call()


def test_a_hook_on_its_projection_never_fires_which_is_why():
    fired = []
    for module in (mha(), ExplicitAttention(mha())):
        module.out_proj.register_forward_pre_hook(lambda *_, m=module: fired.append(type(m)))
        x = torch.randn(6, 3, E, dtype=torch.float64)
        module(x, x, x)
    assert fired == [ExplicitAttention]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("options", [{"batch_first": True}, {"norm_first": True}], ids=str)
@pytest.mark.parametrize("grad", [True, False])
def test_an_encoder_of_torch_computes_the_same_with_explicit_attention(options, grad):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, HEADS, 48, dtype=torch.float64, **options)
    model = nn.TransformerEncoder(layer, 2).eval()
    explicit = explicit_attention(model)
    x = torch.randn(4, 4, E, dtype=torch.float64)
    padding = torch.arange(4) >= torch.tensor([4, 3, 2, 4])[:, None]
    xi = torch.ones(2, HEADS)
    xi[:, 0] = 0
    with torch.set_grad_enabled(grad):
        for arguments in ({}, {"src_key_padding_mask": padding}):
            expected, got = (m(x, **arguments) for m in (model, explicit))
            real = ~padding if layer.self_attn.batch_first else ~padding.T
            close(got[real], expected[real])
        with gated(explicit, xi):
            close(explicit(x), remove_heads(model, xi > 0)(x))


def test_an_encoder_decoder_of_torch_has_three_kinds():
    model = nn.Transformer(E, HEADS, 1, 1, 48, batch_first=True, dtype=torch.float64).eval()
    explicit = explicit_attention(model)
    assert [(a.name, a.kind == "cross") for a in find_attention(explicit)] == [
        ("encoder.layers.0.self_attn", False),
        ("decoder.layers.0.self_attn", False),
        ("decoder.layers.0.multihead_attn", True),
    ]
    source, target = (
        torch.randn(2, 5, E, dtype=torch.float64),
        torch.randn(2, 4, E, dtype=torch.float64),
    )
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    expected, got = (
        m(source, target, tgt_mask=mask, tgt_is_causal=True) for m in (model, explicit)
    )
    close(got, expected)


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
