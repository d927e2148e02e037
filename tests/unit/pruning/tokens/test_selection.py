"""Scores, selection and thresholds for tokens: real tokens only, [CLS] always, the same decision padded or not."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.pruning.tokens import (
    SoftThreshold,
    attention_received,
    cascade_step,
    cls_attention,
    keep_tokens,
    kept_count,
    progressive,
    progressive_shares,
    share_kept,
    threshold_policy,
    top_tokens,
)


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


def mask_of(lengths, L):
    return torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)


def attention(rng, B, M, L, token_mask):
    scores = torch.randn(B, M, L, L, generator=rng, dtype=torch.float64)
    return scores.masked_fill(~token_mask[:, None, None, :], -math.inf).softmax(-1)


def scores_of(rng, token_mask):
    raw = torch.rand(token_mask.shape, generator=rng, dtype=torch.float64) * token_mask
    return raw / raw.sum(1, keepdim=True)


# ------------------------------------------------------------------------------------------------------------- scores
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
    """Attention that leaks into padded columns, as a mean over padded rows or a mask forgotten would leave it."""
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
    torch.testing.assert_close(attention_received(padded, mask_of([4], 7))[:, :4], attention_received(attn, mask))


def test_heads_that_do_not_count_do_not_vote(rng):
    mask = mask_of([4, 2], 4)
    attn = attention(rng, 2, 3, 4, mask)
    heads = torch.tensor([True, False, True])
    torch.testing.assert_close(attention_received(attn, mask, heads), attention_received(attn[:, heads], mask))
    each = torch.tensor([[True, False, True], [False, True, False]])
    got = attention_received(attn, mask, each)
    torch.testing.assert_close(got[:1], attention_received(attn[:1, [0, 2]], mask[:1]))
    torch.testing.assert_close(got[1:], attention_received(attn[1:, [1]], mask[1:]))


def test_the_cls_row_is_the_first_row_of_the_whole_matrix(rng):
    q, k = torch.randn(2, 2, 3, 6, 8, generator=rng, dtype=torch.float64)
    mask = mask_of([6, 4], 6)
    whole = (q @ k.mT / math.sqrt(8)).masked_fill(~mask[:, None, None, :], -math.inf).softmax(-1)  # (B, M, L, L)
    torch.testing.assert_close(cls_attention(q[:, :, :1], k, mask), whole[:, :, 0].mean(1))
    torch.testing.assert_close(cls_attention(q[:, :, :2], k, mask), whole[:, :, :2].mean((1, 2)))
    heads = torch.tensor([False, True, True])
    torch.testing.assert_close(cls_attention(q[:, :, :1], k, mask, heads), whole[:, heads, 0].mean(1))


@pytest.mark.parametrize(
    "attn, mask, message",
    [
        (torch.rand(2, 3, 4, 5), torch.ones(2, 5).bool(), r"\(B, M, L, L\)"),
        (torch.rand(2, 3, 4, 4), torch.ones(2, 4), "bool"),
        (torch.rand(2, 3, 4, 4), torch.ones(4, 2).bool(), r"\(2, 4\)"),
        (torch.rand(2, 3, 4, 4), torch.tensor([[True] * 4, [False] * 4]), "text 1 has no real token"),
    ],
)
def test_scores_say_what_is_wrong(attn, mask, message):
    with pytest.raises(ValueError, match=message):
        attention_received(attn, mask)


def test_no_head_that_counts_is_refused(rng):
    mask = mask_of([3], 3)
    with pytest.raises(ValueError, match="no head"):
        attention_received(attention(rng, 1, 2, 3, mask), mask, torch.zeros(2, dtype=torch.bool))


# ---------------------------------------------------------------------------------------------------------- selection
@pytest.mark.parametrize(
    "n, fraction, expected", [(37, 0.15, 6), (10, 0.5, 5), (10, 0.3, 3), (3, 0.1, 1), (7, 1.0, 7), (10, 0.31, 4)]
)
def test_a_share_is_rounded_up_but_not_for_rounding_errors(n, fraction, expected):
    assert kept_count(torch.tensor([n]), fraction).tolist() == [expected]


def test_progressive_starts_full_never_grows_and_ends_at_its_share():
    lengths = torch.tensor([40, 7, 1])
    got = progressive(lengths, 5, 0.1)
    assert got[0].tolist() == [40, 7, 1]
    assert got[-1].tolist() == [4, 1, 1]
    assert (got[1:] <= got[:-1]).all() and (got >= 1).all()
    expected = [[max(1, math.ceil(n * 0.1 ** (layer / 4) - 1e-9)) for n in (40, 7, 1)] for layer in range(5)]
    assert got.tolist() == expected
    assert progressive([9], 1, 0.2).tolist() == [[9]]


def test_shares_for_dropping_are_the_same_schedule():
    lengths = torch.tensor([40, 7, 33])
    shares = progressive_shares(5, 0.1)
    assert list(shares) == [0, 1, 2, 3]  # what stays after layer l is what layer l + 1 works on
    for layer, share in shares.items():
        assert torch.equal(kept_count(lengths, share), progressive(lengths, 5, 0.1)[layer + 1])


def test_top_tokens_keeps_the_largest_and_cls_and_ties_go_to_the_first():
    scores = torch.tensor([[0.0, 0.3, 0.1, 0.3, 0.3], [0.0, 0.5, 0.5, 0.9, 0.9]])
    mask = mask_of([5, 3], 5)
    assert top_tokens(scores, mask, 3).tolist() == [
        [True, True, False, True, False],
        [True, True, True, False, False],  # what padding has, does not count
    ]
    assert top_tokens(scores, mask, 1).sum(1).tolist() == [1, 1]
    assert top_tokens(scores, mask, 99).tolist() == mask.tolist()
    assert top_tokens(scores, mask, torch.tensor([2, 1])).sum(1).tolist() == [2, 1]
    assert top_tokens(scores, mask, 2, protect=2)[:, :2].all()


def test_top_tokens_as_a_plain_loop_does_it(rng):
    for _ in range(30):
        L, k = int(torch.randint(2, 12, (), generator=rng)), int(torch.randint(1, 14, (), generator=rng))
        lengths = torch.randint(1, L + 1, (4,), generator=rng).tolist()
        scores = torch.randint(0, 4, (4, L), generator=rng).float()  # many ties
        got = top_tokens(scores, mask_of(lengths, L), k)
        for b, n in enumerate(lengths):
            order = sorted(range(1, n), key=lambda i: (-float(scores[b, i]), i))  # noqa: B023
            assert got[b].nonzero().flatten().tolist() == sorted([0, *order[: k - 1]])


def test_threshold_decides_alike_for_short_long_and_padded_texts(rng):
    mask = mask_of([6], 6)
    s = scores_of(rng, mask)
    keep = threshold_policy(s, 0.9, mask)
    assert keep[0].tolist() == [True, *(6 * s[0, 1:] >= 0.9).tolist()]
    padded = threshold_policy(F.pad(s, (0, 5)), 0.9, mask_of([6], 11))
    assert torch.equal(padded[:, :6], keep) and not padded[:, 6:].any()
    # uniform scores: every token is average, in any length
    for n in (3, 30):
        assert threshold_policy(torch.full((1, n), 1 / n, dtype=torch.float64), 0.99, mask_of([n], n)).all()
        assert threshold_policy(torch.full((1, n), 1 / n, dtype=torch.float64), 1.01, mask_of([n], n)).sum() == 1


def test_threshold_keeps_what_is_equal():
    s = torch.tensor([[0.25, 0.5, 0.25, 0.0]])
    assert threshold_policy(s, 1.0, mask_of([4], 4)).tolist() == [[True, True, True, False]]


def test_keep_tokens_gathers_in_order(rng):
    hidden = torch.randn(2, 6, 3, generator=rng)
    mask = mask_of([6, 2], 6)
    scores = torch.tensor([[0.0, 0.1, 0.5, 0.2, 0.4, 0.3], [0.0, 0.9, 0.8, 0.8, 0.8, 0.8]])
    rows, kept, index = keep_tokens(hidden, mask, scores, 4)
    assert index.tolist() == [[0, 2, 4, 5], [0, 1, 2, 3]]  # the second text is filled up with its padding
    assert index.dtype == torch.int64
    assert kept.tolist() == [[True] * 4, [True, True, False, False]]
    for b in range(2):
        assert torch.equal(rows[b], hidden[b, index[b]])


def test_keep_tokens_has_k_rows_at_most_L(rng):
    hidden, mask = torch.randn(3, 5, 2, generator=rng), mask_of([5, 1, 3], 5)
    scores = scores_of(rng, mask)
    for k in range(1, 8):
        rows, kept, index = keep_tokens(hidden, mask, scores, k)
        assert rows.shape == (3, min(k, 5), 2) and kept.shape == index.shape == (3, min(k, 5))
        assert kept.sum(1).tolist() == [min(k, n) for n in (5, 1, 3)]
        assert (index[:, 0] == 0).all()
        assert (index.diff(dim=1) > 0).all()
    rows, kept, index = keep_tokens(hidden, mask, scores, torch.tensor([2, 1, 3]))
    assert rows.shape == (3, 3, 2) and kept.sum(1).tolist() == [2, 1, 3]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s, m: top_tokens(s, m, 0), "at least 1"),
        (lambda s, m: top_tokens(s, m, 0.5), "whole number"),
        (lambda s, m: top_tokens(s, m, torch.tensor([1, 2, 3])), "one for each of the 2"),
        (lambda s, m: top_tokens(s * math.nan, m, 2), "NaN"),
        (lambda s, m: top_tokens(s, m.flip(1), 2), "pad on the right"),
        (lambda s, m: top_tokens(s, m.long(), 2), "bool"),
        (lambda s, m: top_tokens(s, m, 2, protect=0), "protect"),
        (lambda s, m: threshold_policy(s, math.nan, m), "theta is NaN"),
        (lambda s, m: keep_tokens(s[:, :2, None], m, s, 2), r"\(B, L, E\)"),
        (lambda s, m: kept_count(m.sum(1), 0.0), "above 0"),
        (lambda s, m: kept_count(m.sum(1), 15), "write 0.15"),
        (lambda s, m: progressive([3, 0], 4, 0.5), "from 1"),
        (lambda s, m: progressive([3], 4, 1.5), "at most at 1"),
    ],
)
def test_selection_says_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.rand(2, 5), mask_of([5, 3], 5))


# --------------------------------------------------------------------------------------------------- learned thresholds
def test_soft_threshold_is_a_sigmoid_of_its_distance(rng):
    mask = mask_of([5, 3], 5)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(3, temperature=0.4).double()
    with torch.no_grad():
        threshold.theta[1] = 0.8
    got = threshold(s, 1, mask).detach()
    for b, n in enumerate((5, 3)):
        for i in range(5):
            expected = 1 if i == 0 else 0 if i >= n else 1 / (1 + math.exp(-(n * float(s[b, i]) - 0.8) / 0.4))
            assert abs(float(got[b, i]) - expected) < 1e-6


def test_soft_threshold_gets_a_gradient_and_the_sparsity_term_raises_it(rng):
    mask = mask_of([6, 4], 6)
    s = scores_of(rng, mask).requires_grad_()
    threshold = SoftThreshold(2, temperature=0.3)
    share_kept(threshold(s, 1, mask), mask).backward()
    assert threshold.theta.grad[0] == 0 and threshold.theta.grad[1] < 0  # descent raises theta
    assert s.grad.abs().sum() > 0


def test_threshold_ends_hard(rng):
    mask = mask_of([8, 5], 8)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(1, temperature=0.2)
    with torch.no_grad():
        threshold.theta[0] = 0.9
    hard = threshold.eval()(s, 0, mask)
    assert hard.dtype == s.dtype and set(hard.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(hard.bool(), threshold_policy(s, float(threshold.theta[0]), mask))
    threshold.train().temperature = 1e-4
    assert (threshold(s, 0, mask) - hard).abs().max() < 1e-3  # the step is the limit


def test_threshold_counts_what_is_left_of_tokens(rng):
    """With weights in place of a mask n is their sum, so tokens at 0 are as good as not there."""
    mask = mask_of([4], 6)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(1, temperature=0.3)
    torch.testing.assert_close(threshold(s, 0, mask.double()), threshold(s, 0, mask))


@pytest.mark.parametrize("arguments", [(0, 0.3), (3, 0.0), (3, -1.0), (3, math.inf)])
def test_soft_threshold_refuses(arguments):
    with pytest.raises(ValueError):
        SoftThreshold(*arguments)


def test_soft_threshold_has_no_other_layers():
    mask = mask_of([3], 3)
    with pytest.raises(IndexError, match="0 to 1"):
        SoftThreshold(2, 0.3)(torch.full((1, 3), 1 / 3), 2, mask)


# -------------------------------------------------------------------------------------------------------------- cascade
def test_a_cascade_only_shrinks(rng):
    tokens, heads = torch.ones(9, dtype=torch.bool), torch.ones(4, dtype=torch.bool)
    token_scores, head_scores = torch.zeros(9), torch.zeros(4)
    for n_tokens, n_heads in ((7, 4), (7, 3), (3, 3), (5, 9)):
        token_scores += torch.rand(9, generator=rng)
        head_scores += torch.rand(4, generator=rng)
        new_tokens, new_heads = cascade_step(token_scores, head_scores, tokens, heads, n_tokens, n_heads)
        assert not (new_tokens & ~tokens).any() and not (new_heads & ~heads).any()
        assert new_tokens[0]
        assert new_tokens.sum() == min(n_tokens, tokens.sum()) and new_heads.sum() == min(n_heads, heads.sum())
        tokens, heads = new_tokens, new_heads
    assert tokens.sum() == 3 and heads.sum() == 3


def test_the_dead_do_not_come_back_whatever_their_score():
    alive = torch.tensor([True, False, True, True])
    scores = torch.tensor([0.0, 9.0, 2.0, 1.0])
    tokens, heads = cascade_step(scores, scores, alive, alive, 2, 2)
    assert tokens.tolist() == [True, False, True, False]
    assert heads.tolist() == [False, False, True, True]
    _, heads = cascade_step(scores, torch.full((4,), -math.inf), alive, alive, 2, 2)
    assert heads.tolist() == [True, False, True, False]  # equal scores: the first that is alive


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"token_scores": torch.rand(1, 4)}, "one text"),
        ({"n_tokens": 0}, "at least 1"),
        ({"n_heads": 0}, "at least 1"),
        ({"alive_heads": torch.zeros(3, dtype=torch.bool)}, "at least one True"),
        ({"head_scores": torch.full((3,), math.nan)}, "NaN"),
    ],
)
def test_cascade_step_refuses(changes, message):
    arguments = {
        "token_scores": torch.rand(4),
        "head_scores": torch.rand(3),
        "alive_tokens": torch.ones(4, dtype=torch.bool),
        "alive_heads": torch.ones(3, dtype=torch.bool),
        "n_tokens": 2,
        "n_heads": 2,
    }
    with pytest.raises(ValueError, match=message):
        cascade_step(**arguments | changes)
