"""Scores of tokens, and which of them stay: real ones only, [CLS] always, the same
decision padded or not.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.pruning.tokens import (
    SoftThreshold,
    attention_received,
    cascade_step,
    keep_tokens,
    kept_count,
    progressive,
    progressive_shares,
    threshold_policy,
    top_tokens,
)


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


def mask_of(lengths, L):
    return torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)


def scores_of(rng, mask):
    raw = torch.rand(mask.shape, generator=rng, dtype=torch.float64) * mask
    return raw / raw.sum(1, keepdim=True)


def test_received_is_the_mean_of_real_rows_of_each_column_whatever_padding_holds(rng):
    mask = mask_of([5, 3], 5)
    scores = torch.randn(2, 2, 5, 5, generator=rng).double()
    attn = scores.masked_fill(~mask[:, None, None, :], -math.inf).softmax(-1)
    got = attention_received(attn, mask)
    for b, n in enumerate((5, 3)):
        for i in range(5):
            column = [float(attn[b, h, j, i]) for h in range(2) for j in range(n)]
            assert float(got[b, i]) == pytest.approx(sum(column) / len(column) if i < n else 0)
    for rubbish in (0.7, math.nan):  # as a forgotten mask would leave it
        padded = F.pad(F.pad(attn, (0, 3), value=0.7), (0, 0, 0, 3), value=rubbish)
        torch.testing.assert_close(
            attention_received(padded, mask_of([5, 3], 8)), F.pad(got, (0, 3))
        )


def test_a_share_is_rounded_up_but_not_for_rounding_errors():
    for n, fraction, expected in (
        (37, 0.15, 6),
        (10, 0.3, 3),
        (3, 0.1, 1),
        (7, 1.0, 7),
        (10, 0.31, 4),
    ):
        assert kept_count(torch.tensor([n]), fraction).tolist() == [expected]


def test_progressive_starts_full_never_grows_and_ends_at_its_share():
    lengths = torch.tensor([40, 7, 1])
    got = progressive(lengths, 5, 0.1)
    assert got.tolist() == [
        [max(1, math.ceil(n * 0.1 ** (layer / 4) - 1e-9)) for n in (40, 7, 1)] for layer in range(5)
    ]
    assert progressive([9], 1, 0.2).tolist() == [[9]]
    # what stays after layer l is what layer l + 1 works on
    for layer, share in progressive_shares(5, 0.1).items():
        assert torch.equal(kept_count(lengths, share), got[layer + 1])


def test_top_tokens_as_a_plain_loop_does_it_and_their_rows(rng):
    hidden = torch.randn(4, 11, 3, generator=rng)
    for k in (1, 2, 3, 7, 14):
        for L in (2, 5, 11):
            lengths = torch.randint(1, L + 1, (4,), generator=rng).tolist()
            scores = torch.randint(-1, 3, (4, L), generator=rng).float()  # many ties
            mask = mask_of(lengths, L)
            got = top_tokens(scores, mask, k)
            assert torch.equal(top_tokens(scores, mask, torch.full((4,), k)), got)
            rows, kept, index = keep_tokens(hidden[:, :L], mask, scores, k)
            assert rows.shape == (4, min(k, L), 3) and index.dtype == torch.int64
            for b, n in enumerate(lengths):
                order = sorted(range(1, n), key=lambda i: (-float(scores[b, i]), i))  # noqa: B023
                expected = sorted([0, *order[: k - 1]])
                assert got[b].nonzero().flatten().tolist() == expected
                assert index[b, kept[b]].tolist() == expected
                assert torch.equal(rows[b], hidden[b, index[b]])
    assert top_tokens(torch.arange(5.0)[None], mask_of([5], 5), 2, protect=2)[0, :2].all()


def test_a_short_text_is_filled_up_with_its_padding_first():
    scores = torch.tensor([[0.0, 0.9, 0.8, 0.7, 0.6, 0.8]])
    _, kept, index = keep_tokens(torch.zeros(1, 6, 3), mask_of([2], 6), scores, 4)
    assert index.tolist() == [[0, 1, 2, 3]] and kept.tolist() == [[True, True, False, False]]


def test_thresholds_decide_alike_for_short_long_and_padded_texts(rng):
    mask = mask_of([6], 6)
    s = scores_of(rng, mask)
    keep = threshold_policy(s, 0.9, mask)
    assert keep[0].tolist() == [True, *(6 * s[0, 1:] >= 0.9).tolist()]
    padded = threshold_policy(F.pad(s, (0, 5)), 0.9, mask_of([6], 11))
    assert torch.equal(padded, F.pad(keep, (0, 5)))
    for n in (4, 32):  # uniform scores: every token is average, in any length
        s = torch.full((1, n), 1 / n)
        stay = [int(threshold_policy(s, at, mask_of([n], n)).sum()) for at in (0.99, 1.0, 1.01)]
        assert stay == [n, n, 1]


def test_soft_threshold_is_a_sigmoid_of_its_distance_and_ends_hard(rng):
    mask = mask_of([5, 3], 5)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(3, temperature=0.4).double()
    threshold.theta.data[1] = 0.8
    got = threshold(s, 1, mask)
    n = torch.tensor([[5], [3]])
    expected = torch.sigmoid((n * s - 0.8) / 0.4) * mask
    expected[:, 0] = 1
    torch.testing.assert_close(got.detach(), expected)
    # with weights in place of a mask n is their sum
    torch.testing.assert_close(threshold(s, 1, mask.double()), got)
    hard = threshold.eval()(s, 1, mask)
    assert hard.dtype == s.dtype and torch.equal(hard > 0, threshold_policy(s, 0.8, mask))
    threshold.train().temperature = 1e-4
    assert (threshold(s, 1, mask) - hard).abs().max() < 1e-3  # the step is the limit


def test_a_cascade_only_shrinks_and_the_dead_do_not_come_back(rng):
    tokens, heads = torch.ones(9, dtype=torch.bool), torch.ones(4, dtype=torch.bool)
    for n_tokens, n_heads in ((7, 4), (7, 3), (3, 3), (5, 9)):
        scores = torch.rand(9, generator=rng), torch.rand(4, generator=rng)
        new_tokens, new_heads = cascade_step(*scores, tokens, heads, n_tokens, n_heads)
        assert not (new_tokens & ~tokens).any() and not (new_heads & ~heads).any()
        assert new_tokens[0] and new_tokens.sum() == min(n_tokens, tokens.sum())
        assert new_heads.sum() == min(n_heads, heads.sum())
        tokens, heads = new_tokens, new_heads
    alive = torch.tensor([True, False, True, True])
    _, heads = cascade_step(torch.rand(4), torch.full((4,), -math.inf), alive, alive, 2, 2)
    assert heads.tolist() == [True, False, True, False]  # equal scores: the first that is alive
