"""Maps: what heads point to, against loops, and fixed ones."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.heads import (
    arc_baseline,
    fixed_patterns,
    frozen_attention,
    neighbour,
    points_to,
)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6))
def test_roles_and_their_baseline_against_loops(seed):
    B, M, L = 3, 2, 6
    g = torch.Generator().manual_seed(seed)
    attn = torch.randint(1, 4, (B, M, L, L), generator=g).double()
    mask = torch.rand(B, L, generator=g) < 0.7
    mask[:, 0] = True
    target = torch.full((B, L), -1)
    target[0, 0] = 0
    right, offsets = [0, 0], []
    for b in range(B):
        real = mask[b].nonzero().flatten().tolist()
        for i in range(L):
            if torch.rand((), generator=g) < 0.6:
                target[b, i] = real[int(torch.randint(len(real), (), generator=g))]
            if mask[b, i] and target[b, i] >= 0:
                offsets.append(int(target[b, i]) - i)
                for m in range(M):
                    best = max(real, key=lambda j, at=attn[b, m, i]: (float(at[j]), -j))
                    right[m] += best == int(target[b, i])
    expected = [r / len(offsets) for r in right]
    assert points_to(attn, target, mask).tolist() == pytest.approx(expected)
    # what is not looked at, and who is not asked, does not matter
    rubbish = attn.masked_fill(~mask[:, None, None, :], 100.0)
    assert points_to(rubbish, target.masked_fill(~mask, -1), mask).tolist() == expected
    shares = {o: offsets.count(o) / len(offsets) for o in range(1 - L, L) if o}
    if max(shares.values()):
        best = min(shares, key=lambda o: (-shares[o], abs(o), o))
        assert arc_baseline(target, mask) == (best, pytest.approx(shares[best]))


def test_neighbours():
    mask = torch.tensor([[True, True, False, True, True]])
    assert neighbour(mask, 1).tolist() == [[1, -1, -1, 4, -1]]
    assert neighbour(mask, -3).tolist() == [[-1, -1, -1, 0, 1]]


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_fixed_patterns_are_distributions_by_place(n):
    maps = fixed_patterns(n)
    assert maps.shape == (7, n, n) and torch.allclose(maps.sum(-1), torch.ones(7, n))
    assert torch.equal(maps[0], torch.eye(n))
    mirrored = maps.flip(1, 2)
    for one, other in ((1, 2), (3, 4), (5, 6)):
        assert torch.allclose(maps[one], mirrored[other])
    if n > 3:
        assert maps[3, 3, :3].tolist() == pytest.approx([1 / 9, 8 / 9, 0])


def test_frozen_attention_is_each_sentences_own():
    learned, lengths = torch.rand(2, 4, 5, 5), torch.tensor([5, 3])
    out = frozen_attention(learned, lengths)
    assert torch.equal(out[:, -1], learned[:, -1])
    assert torch.equal(out[1, :3, :3, :3], fixed_patterns(3)[:3])
    assert not out[1, :3, 3:].any() and not out[1, :3, :, 3:].any()
