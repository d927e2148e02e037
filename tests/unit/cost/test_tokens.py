"""What shrinking lengths cost: against the formula, against one layer's, and against a
count of a running model.
"""

import torch

import course_lib  # noqa: F401  before transformers, which may need torchvision's operators declared
from course_lib.cost import model_cost, texts_macs, token_macs, transformer_macs
from course_lib.pruning.tokens import dropping


def test_the_formula():
    one = [transformer_macs(1, length, 4096)["total"] for length in (10, 5, 10**6, 10**6)]
    assert token_macs([10, 5, 10**6, 10**6], 4096) == sum(one) > 2**53
    assert token_macs([], 8) == 0


def test_widths_and_lengths_of_the_ffn():
    got = token_macs([10, 4], 8, ffn_lengths=[4, 4], ffn_width=16, attention_width=[8, 2])
    assert got == (4 * 10 * 8 * 8 + 2 * 100 * 8 + 2 * 4 * 8 * 16) + (
        4 * 4 * 8 * 2 + 2 * 16 * 2 + 2 * 4 * 8 * 16
    )
    assert token_macs([10], 8, attention_width=0) == 2 * 10 * 8 * 32  # a layer without heads


def test_many_texts_are_each_their_own_sum():
    g = torch.Generator().manual_seed(0)
    attention, ffn = torch.randint(1, 50, (2, 4, 7), generator=g)
    heads = torch.randint(0, 5, (4, 7), generator=g) * 8
    for width in (None, 16, [32, 24, 0, 8], heads):
        got = texts_macs(attention, ffn, 32, ffn_width=48, attention_width=width)
        for n in range(7):
            own = width[:, n].tolist() if isinstance(width, torch.Tensor) else width
            assert got[n] == token_macs(
                attention[:, n].tolist(),
                32,
                ffn_lengths=ffn[:, n].tolist(),
                ffn_width=48,
                attention_width=own,
            )


def test_as_many_as_a_running_model_multiplies():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=40,
        max_position_embeddings=20, attn_implementation="sdpa",
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    ids = torch.randint(5, 30, (4, 12), generator=torch.Generator().manual_seed(0))
    with dropping(model, {0: 0.5, 1: 2}) as drop:
        rows = model_cost(model, ids)
    # [CLS] against all keys, in the two layers that are scored
    scoring = [r for r in rows if r.kind == "matmul"]
    assert sum(r.macs for r in scoring) == 4 * 16 * (12 + 6)
    counted = sum(r.macs for r in rows) - sum(r.macs for r in scoring)
    assert counted == int(texts_macs(*drop.lengths(), 16, ffn_width=40).sum())
