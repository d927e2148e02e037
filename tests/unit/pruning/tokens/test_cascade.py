"""Tokens and heads that go together only get fewer."""

import math

import torch

from course_lib.pruning.tokens import (
    cascade_step,
)


def test_a_cascade_only_shrinks(rng):
    tokens, heads = torch.ones(9, dtype=torch.bool), torch.ones(4, dtype=torch.bool)
    token_scores, head_scores = torch.zeros(9), torch.zeros(4)
    for n_tokens, n_heads in ((7, 4), (7, 3), (3, 3), (5, 9)):
        token_scores += torch.rand(9, generator=rng)
        head_scores += torch.rand(4, generator=rng)
        new_tokens, new_heads = cascade_step(
            token_scores, head_scores, tokens, heads, n_tokens, n_heads
        )
        assert not (new_tokens & ~tokens).any() and not (new_heads & ~heads).any()
        assert new_tokens[0]
        assert new_tokens.sum() == min(n_tokens, tokens.sum()) and new_heads.sum() == min(
            n_heads, heads.sum()
        )
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
