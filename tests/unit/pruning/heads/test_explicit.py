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
PADDING = torch.arange(6) >= torch.tensor([4, 6, 6])[:, None]
CAUSAL = torch.ones(6, 6, dtype=torch.bool).triu(1)
g = torch.Generator().manual_seed(0)
MASKS = {
    "none": {},
    "padding as numbers": {"key_padding_mask": torch.randn(3, 6, generator=g).double()},
    "causal hint": {"attn_mask": CAUSAL, "is_causal": True},
    "for each head": {"attn_mask": torch.randn(3 * HEADS, 6, 6, generator=g).double()},
    "both": {"key_padding_mask": PADDING, "attn_mask": CAUSAL},
}
X = torch.ones(6, 3, E, dtype=torch.float64)
RETURNED = [{"need_weights": False}, {}, {"average_attn_weights": False}]


def mha(**options):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **options)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0, 0.3)
    return module.eval()


@pytest.mark.parametrize("options", MODULES.values(), ids=MODULES)
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("returned", RETURNED, ids=str)
def test_explicit_attention_equals_multihead_attention_in_outputs_and_gradients(
    options, masks, returned
):
    module = mha(**options)
    mine = ExplicitAttention(module)
    q, k, v = (torch.randn(3, 6, d).double() for d in (E, module.kdim, module.vdim))
    if not module.batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    both = [m(q, k, v, **masks, **returned) for m in (module, mine)]
    for expected, got in zip(*both, strict=True):
        assert (expected is None) == (got is None)
        if expected is not None:
            close(got, expected)
    for made, _ in both:
        made.square().sum().backward()
    if module.in_proj_weight is not None:
        parts = (mine.q_proj, mine.k_proj, mine.v_proj)
        packed = torch.cat([part.weight.grad for part in parts])
        close(packed, module.in_proj_weight.grad, atol=1e-10)


@pytest.mark.parametrize("need_weights", [True, False])
def test_explicit_attention_drops_out_only_while_training(need_weights):
    mine = ExplicitAttention(mha(dropout=0.5))
    assert torch.equal(*(mine(X, X, X, need_weights=need_weights)[0] for _ in range(2)))
    mine.train()
    assert not torch.equal(*(mine(X, X, X, need_weights=need_weights)[0] for _ in range(2)))


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
    found = {a.name.partition(".layers.0.")[2]: a.kind for a in find_attention(explicit)}
    assert found == {"self_attn": "encoder", "multihead_attn": "cross"}
    source, target = torch.randn(2, 5, E).double(), torch.randn(2, 4, E).double()
    mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.float64)
    expected, got = (
        m(source, target, tgt_mask=mask, tgt_is_causal=True) for m in (model, explicit)
    )
    close(got, expected)


def test_replacing_leaves_the_given_model_and_keeps_what_is_shared_and_frozen():
    shared = mha(batch_first=True)
    shared.in_proj_weight.requires_grad_(False)
    model = nn.ModuleList([shared, shared])
    before = copy.deepcopy(model.state_dict())
    one, other = explicit_attention(model)
    assert one is other and isinstance(one, ExplicitAttention)
    assert not one.q_proj.weight.requires_grad and one.q_proj.bias.requires_grad
    one.q_proj.weight.data.zero_()
    torch.testing.assert_close(model.state_dict(), before)
    assert isinstance(explicit_attention(shared), ExplicitAttention)
