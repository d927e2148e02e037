"""N:M storage: what it holds, and what it takes."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cost.block_formats import joint_products, nm_bits, nm_compress
from course_lib.pruning.weights import nm_mask


@st.composite
def stored(draw):
    m = draw(st.integers(1, 6))
    n = draw(st.integers(1, m))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    w = torch.randint(
        -2, 3, (draw(st.integers(0, 4)), m * draw(st.integers(0, 3))), generator=generator
    )
    w = w.to(draw(st.sampled_from([torch.float64, torch.float16]))).masked_fill(w == 2, math.inf)
    return w.masked_fill(~nm_mask(w, n, m), 0), n, m


@settings(max_examples=150, deadline=None)
@given(stored())
def test_what_is_stored(case):
    w, n, m = case
    values, index = nm_compress(w, n, m)
    assert values.dtype == w.dtype and index.dtype == torch.int64
    assert values.shape == index.shape == (len(w), w.shape[1] // m * n)
    for r in range(len(w)):
        for b in range(w.shape[1] // m):
            block, places = w[r, b * m : b * m + m].tolist(), index[r, b * n : b * n + n].tolist()
            full = [i for i, v in enumerate(block) if v]
            assert places == sorted(full + [i for i in range(m) if i not in full][: n - len(full)])
            assert values[r, b * n : b * n + n].tolist() == [block[i] for i in places]


def test_bits():
    assert nm_bits(4, 8, 2, 4) == 4 * 2 * 2 * 34
    assert nm_bits(1, 6, 1, 3, 16) == 2 * 18
    assert nm_bits(5, 7, 1, 1, 8) == 280  # no place to tell


def test_joint_products_are_counted_one_by_one():
    generator = torch.Generator().manual_seed(0)
    x, w = (
        torch.randint(0, 2, shape, generator=generator).float() for shape in ((3, 2, 5), (4, 5))
    )
    assert joint_products(x, w) == int((x[:, :, None, :] * w != 0).sum())
