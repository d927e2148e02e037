"""N:M masks against a loop over blocks."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.models import SmallConvNet
from course_lib.pruning import weights


def loop(score, n, m, dim):
    """Block by block, entry by entry."""
    kept = torch.zeros(score.shape, dtype=torch.bool)
    dim %= score.ndim
    others = [range(size) if d != dim else range(0, size, m) for d, size in enumerate(score.shape)]
    for first in itertools.product(*others):
        block = [(*first[:dim], first[dim] + i, *first[dim + 1 :]) for i in range(m)]
        for place in sorted(block, key=lambda at: (abs(float(score[at])), at[dim]))[m - n :]:
            kept[place] = True
    return kept


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_every_block_keeps_its_n_largest(data):
    m = data.draw(st.integers(1, 5) | st.just(20))  # long blocks are sorted
    n, dims = data.draw(st.integers(1, m)), data.draw(st.integers(1, 4))
    dim = data.draw(st.integers(-dims, dims - 1))
    shape = [data.draw(st.integers(0, 3)) for _ in range(dims)]
    shape[dim] = m * data.draw(st.integers(0, 3))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    score = torch.randint(-3, 4, shape, generator=generator)
    score = score.to(data.draw(st.sampled_from([torch.float32, torch.float16])))
    before = score.clone()
    mask = weights.nm_mask(score, n, m, dim)
    assert mask.dtype == torch.bool and torch.equal(mask, loop(score, n, m, dim))
    assert torch.equal(score, before)


def test_masks_of_a_model():
    scores = weights.magnitude(weights.prunable(SmallConvNet()))
    masks = weights.nm_masks(scores, 2, 4)
    assert masks.pop("conv1.weight").all()  # one input channel
    for name, mask in masks.items():
        assert torch.equal(mask, weights.nm_mask(scores[name], 2, 4, 1))
    along = weights.nm_masks(scores, 1, 3, dim=-1)  # a kernel's columns, where there are three
    assert float(along["conv1.weight"].float().mean()) == pytest.approx(1 / 3)
