"""Roles of heads, against loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.heads import arc_baseline, neighbour, points_to, rarest


def case(seed, B=3, M=2, L=6):
    g = torch.Generator().manual_seed(seed)
    attn = torch.randint(1, 4, (B, M, L, L), generator=g).double()
    mask = torch.rand(B, L, generator=g) < 0.7
    mask[:, 0] = True
    target = torch.full((B, L), -1)
    for b in range(B):
        real = mask[b].nonzero().flatten()
        for i in range(L):
            if torch.rand((), generator=g) < 0.6:
                target[b, i] = real[torch.randint(len(real), (), generator=g)]
    target[0, 0] = 0
    return attn, target, mask


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_points_to_against_loops(seed):
    attn, target, mask = case(seed)
    right, counted = [0, 0], 0
    for b in range(3):
        real = [j for j in range(6) if mask[b, j]]
        for i in real:
            if target[b, i] >= 0:
                counted += 1
                for m in range(2):
                    best = max(real, key=lambda j, b=b, m=m, i=i: (float(attn[b, m, i, j]), -j))
                    right[m] += best == int(target[b, i])
    assert points_to(attn, target, mask).tolist() == pytest.approx([r / counted for r in right])


def test_what_is_not_looked_at_does_not_matter():
    attn, target, mask = case(3)
    other = attn.masked_fill(~mask[:, None, None, :], 100.0)
    assert torch.equal(points_to(attn, target, mask), points_to(other, target, mask))
    assert torch.equal(
        points_to(attn, target.masked_fill(~mask, -1), mask), points_to(attn, target, mask)
    )


def test_neighbours_and_the_rarest():
    mask = torch.tensor([[True, True, False, True, True]])
    assert neighbour(mask, 1).tolist() == [[1, -1, -1, 4, -1]]
    assert neighbour(mask, -3).tolist() == [[-1, -1, -1, 0, 1]]
    tokens, counts = torch.tensor([[2, 0, 1, 0, 2]]), torch.tensor([5, 1, 7])
    assert rarest(tokens, counts, mask).tolist() == [[1, 1, -1, 1, 1]]
    assert rarest(tokens, counts / 3, torch.zeros_like(mask)).tolist() == [[-1] * 5]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_no_other_offset_finds_more(seed):
    _, target, mask = case(seed, L=7)
    counted = [(b, i) for b in range(3) for i in range(7) if mask[b, i] and target[b, i] >= 0]
    shares = {
        o: sum(int(target[b, i]) - i == o for b, i in counted) / len(counted)
        for o in range(-6, 7)
        if o
    }
    if max(shares.values()) == 0:
        return
    offset, share = arc_baseline(target, mask)
    assert share == pytest.approx(max(shares.values())) and shares[offset] == pytest.approx(share)
    ties = [o for o in shares if math.isclose(shares[o], share)]
    assert offset == min(ties, key=lambda o: (abs(o), o))
