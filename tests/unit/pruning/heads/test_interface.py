"""Models of transformers that are not in the table: gates and importance through its
attention interface, and no removal.
"""

import copy

import pytest
import torch

from course_lib.pruning.heads import (
    find_attention,
    gated,
    head_importance,
    output_projections,
    remove_heads,
)
from course_lib.pruning.weights import encoder_weights


def olmo(attention):
    from transformers import Olmo2Config, Olmo2ForCausalLM

    torch.manual_seed(0)
    model = Olmo2ForCausalLM(
        Olmo2Config(
            vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=48, pad_token_id=0, bos_token_id=1,
            eos_token_id=1, attn_implementation=attention, initializer_range=0.3,
        )
    )  # fmt: skip
    return model.double().eval()


IDS = torch.randint(3, 50, (3, 6), generator=torch.Generator().manual_seed(0))


def logits(model):
    with torch.no_grad():
        return model(IDS).logits


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_gates_scale_the_columns_that_read_their_heads(attention):
    model = olmo(attention)
    full, configs = logits(model), [layer.self_attn.config for layer in model.model.layers]
    assert [(a.kind, a.heads, a.kv_heads) for a in find_attention(model)] == [("decoder", 4, 2)] * 2
    with gated(model, torch.ones(2, 4)):
        assert torch.equal(logits(model), full)
    xi = torch.rand(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    by_hand = copy.deepcopy(model)
    for gate, layer in zip(xi, by_hand.model.layers, strict=True):
        layer.self_attn.o_proj.weight.data.mul_(gate.repeat_interleave(8))
    with gated(model, xi):
        got = logits(model)
        with gated(model, xi):
            twice = logits(model)
        written = model.generate(IDS, max_new_tokens=6, do_sample=False)
    torch.testing.assert_close(got, logits(by_hand))
    assert torch.equal(written, by_hand.generate(IDS, max_new_tokens=6, do_sample=False))
    with gated(model, xi**2):
        torch.testing.assert_close(twice, logits(model))
    with gated(model, xi[:, None].expand(-1, 3, -1)):
        torch.testing.assert_close(logits(model), got)
    assert torch.equal(logits(model), full)
    assert all(
        layer.self_attn.config is c for layer, c in zip(model.model.layers, configs, strict=True)
    )


def test_importance_is_the_slope():
    model = olmo("sdpa")

    def loss(m, ids):
        return m(ids).logits.square().mean((1, 2))

    got = head_importance(model, [IDS], loss)
    for layer, head in ((0, 1), (1, 3)):
        ends = []
        for step in (1e-4, -1e-4):
            xi = torch.ones(2, 4, dtype=torch.float64)
            xi[layer, head] += step
            with gated(model, xi), torch.no_grad():
                ends.append(loss(model, IDS))
        slope = float(((ends[0] - ends[1]) / 2e-4).abs().mean())
        assert float(got[layer, head]) == pytest.approx(slope, rel=1e-2)


def test_removal_is_refused_with_the_row_to_write():
    model = olmo("sdpa")
    keep = torch.ones(2, 4, dtype=torch.bool)
    for refused in (lambda: remove_heads(model, keep), lambda: output_projections(model)):
        with pytest.raises(ValueError, match=r"o_proj \(32x32\).*register\(.*Olmo2Attention"):
            refused()
    assert len(encoder_weights(model)) == 14
