"""Exactly the smallest go, ties by position: against a stable sort, on vectors small
and large, of every kind.
"""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.weights import granularity
from course_lib.pruning.weights.granularity import count_pruned, flat, prune_smallest


def agree(parts, count):
    """The definition: a stable sort of all numbers together, and the first ``count`` go."""
    before = [p.clone() for p in parts]
    values = torch.cat([p.double() for p in parts])
    wanted = torch.ones(len(values), dtype=torch.bool)
    wanted[values.sort(stable=True).indices[:count]] = False
    kept = prune_smallest([flat(p) for p in parts], count)
    assert [len(k) for k in kept] == [len(p) for p in parts]
    assert all(k.dtype == bool for k in kept)
    assert np.array_equal(np.concatenate(kept), wanted.numpy())
    assert all(torch.equal(p, b) for p, b in zip(parts, before, strict=True))


NUMBERS = {
    torch.float64: st.floats(-1, 1) | st.sampled_from([0.0, -0.0, torch.inf, -torch.inf]),
    torch.float32: st.floats(width=32, allow_nan=False) | st.integers(-3, 3).map(float),
    torch.float16: st.floats(width=16, allow_nan=False) | st.sampled_from([0.1, 0.3]),
    torch.bfloat16: st.integers(-3, 3).map(float),
    torch.int64: st.integers(-3, 3),
    torch.bool: st.booleans(),
}


@st.composite
def vectors(draw):
    """Of one dtype, or of several that compare by value."""
    dtypes = draw(st.lists(st.sampled_from(list(NUMBERS)), min_size=1, max_size=3))
    return [torch.tensor(draw(st.lists(NUMBERS[d], max_size=20)), dtype=d) for d in dtypes]


@pytest.mark.parametrize(
    "at_once", [4, granularity._AT_ONCE]
)  # the first narrows down, digit by digit
@given(vectors(), st.data())
@settings(max_examples=300, deadline=None)
def test_small_vectors_of_any_numbers(at_once, parts, data):
    with mock.patch.object(granularity, "_AT_ONCE", at_once):
        agree(parts, data.draw(st.integers(0, sum(map(len, parts)))))


def test_results_do_not_share_memory():
    """Views of one long vector would each carry the masks of all layers into a file or
    a copy.
    """
    a, b = (
        torch.from_numpy(k) for k in prune_smallest([flat(torch.rand(10)), flat(torch.rand(10))], 5)
    )
    assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes() == 10


@given(n=st.integers(0, 10**6), s=st.floats(0, 1))
def test_the_count_is_pythons_round(n, s):
    assert count_pruned(s, n) == round(s * n)
