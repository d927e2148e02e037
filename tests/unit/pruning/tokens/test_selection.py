"""Which tokens stay: real ones only, [CLS] always, the same decision padded or not."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.pruning.tokens import (
    keep_tokens,
    kept_count,
    progressive,
    progressive_shares,
    threshold_policy,
    top_tokens,
)
from unit.pruning.tokens.texts import mask_of, scores_of


@pytest.mark.parametrize(
    "n, fraction, expected",
    [(37, 0.15, 6), (10, 0.5, 5), (10, 0.3, 3), (3, 0.1, 1), (7, 1.0, 7), (10, 0.31, 4)],
)
def test_a_share_is_rounded_up_but_not_for_rounding_errors(n, fraction, expected):
    assert kept_count(torch.tensor([n]), fraction).tolist() == [expected]


def test_progressive_starts_full_never_grows_and_ends_at_its_share():
    lengths = torch.tensor([40, 7, 1])
    got = progressive(lengths, 5, 0.1)
    assert got[0].tolist() == [40, 7, 1]
    assert got[-1].tolist() == [4, 1, 1]
    assert (got[1:] <= got[:-1]).all() and (got >= 1).all()
    expected = [
        [max(1, math.ceil(n * 0.1 ** (layer / 4) - 1e-9)) for n in (40, 7, 1)] for layer in range(5)
    ]
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
        L, k = (
            int(torch.randint(2, 12, (), generator=rng)),
            int(torch.randint(1, 14, (), generator=rng)),
        )
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
        assert threshold_policy(
            torch.full((1, n), 1 / n, dtype=torch.float64), 0.99, mask_of([n], n)
        ).all()
        assert (
            threshold_policy(
                torch.full((1, n), 1 / n, dtype=torch.float64), 1.01, mask_of([n], n)
            ).sum()
            == 1
        )


def test_threshold_keeps_what_is_equal():
    s = torch.tensor([[0.25, 0.5, 0.25, 0.0]])
    assert threshold_policy(s, 1.0, mask_of([4], 4)).tolist() == [[True, True, True, False]]


def test_keep_tokens_gathers_in_order(rng):
    hidden = torch.randn(2, 6, 3, generator=rng)
    mask = mask_of([6, 2], 6)
    scores = torch.tensor([[0.0, 0.1, 0.5, 0.2, 0.4, 0.3], [0.0, 0.9, 0.8, 0.8, 0.8, 0.8]])
    rows, kept, index = keep_tokens(hidden, mask, scores, 4)
    # the second text is filled up with its padding
    assert index.tolist() == [[0, 2, 4, 5], [0, 1, 2, 3]]
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
