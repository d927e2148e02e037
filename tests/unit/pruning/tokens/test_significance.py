"""Scores of tokens: over real tokens only, the same padded or not."""

import math

import torch
import torch.nn.functional as F

from course_lib.pruning.tokens import (
    attention_received,
    cls_attention,
)
from unit.pruning.tokens.texts import attention, mask_of


def test_received_is_the_mean_of_real_rows_of_each_column(rng):
    mask = mask_of([5, 3], 5)
    attn = attention(rng, 2, 4, 5, mask)
    got = attention_received(attn, mask)
    for b, n in enumerate((5, 3)):
        for i in range(5):
            column = [float(attn[b, h, j, i]) for h in range(4) for j in range(n)]
            expected = sum(column) / len(column) if i < n else 0
            assert abs(float(got[b, i]) - expected) < 1e-12
    torch.testing.assert_close(got.sum(1), torch.ones(2, dtype=torch.float64))


def test_received_is_no_row_and_not_constant(rng):
    mask = mask_of([6], 6)
    attn = attention(rng, 1, 2, 6, mask)
    got = attention_received(attn, mask)
    assert got.std() > 0.01
    assert not torch.allclose(got, attn.mean(1)[:, 0])


def test_received_renormalises_what_padding_took(rng):
    """Attention that leaks into padded columns, as a mean over padded rows or a mask
    forgotten would leave it.
    """
    mask = mask_of([3], 5)
    leaky = torch.rand(1, 2, 5, 5, generator=rng, dtype=torch.float64).softmax(-1)
    got = attention_received(leaky, mask)
    assert (got[0, 3:] == 0).all()
    assert abs(float(got.sum()) - 1) < 1e-12
    wanted = leaky[0, :, :3, :3].mean((0, 1))
    torch.testing.assert_close(got[0, :3], wanted / wanted.sum())


def test_received_survives_nan_rows_of_padding(rng):
    mask = mask_of([3], 4)
    attn = attention(rng, 1, 2, 4, mask)
    attn[:, :, 3] = math.nan
    assert attention_received(attn, mask).isfinite().all()


def test_padding_changes_no_score(rng):
    mask = mask_of([4], 4)
    attn = attention(rng, 1, 2, 4, mask)
    padded = F.pad(attn, (0, 3, 0, 3), value=0.7)  # rubbish in padded rows and columns
    torch.testing.assert_close(
        attention_received(padded, mask_of([4], 7))[:, :4], attention_received(attn, mask)
    )


def test_the_cls_row_is_the_first_row_of_the_whole_matrix(rng):
    q, k = torch.randn(2, 2, 3, 6, 8, generator=rng, dtype=torch.float64)
    mask = mask_of([6, 4], 6)
    # (B, M, L, L)
    whole = (q @ k.mT / math.sqrt(8)).masked_fill(~mask[:, None, None, :], -math.inf).softmax(-1)
    torch.testing.assert_close(cls_attention(q[:, :, :1], k, mask), whole[:, :, 0].mean(1))
    torch.testing.assert_close(cls_attention(q[:, :, :2], k, mask), whole[:, :, :2].mean((1, 2)))
