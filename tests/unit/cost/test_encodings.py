"""Encodings: every format gives back what it was given, stores what scipy stores, and
takes the bits that it says.
"""

import math

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cost import encodings as e

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [*FLOATS, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool]
ALL = {  # encode, and decode what it gives, of a tensor of a shape
    "bitmap": (e.bitmap_encode, lambda parts, shape: e.bitmap_decode(*parts)),
    "rle": (e.rle_encode, lambda parts, shape: e.rle_decode(*parts)),
    "coo": (e.coo_encode, lambda parts, shape: e.coo_decode(*parts)),
    "csr": (e.csr_encode, lambda parts, shape: e.csr_decode(*parts, shape)),
    "csc": (e.csc_encode, lambda parts, shape: e.csc_decode(*parts, shape)),
}

LECTURE = torch.tensor(
    [
        [10, 20, 0, 0, 0, 0],
        [0, 30, 0, 40, 0, 0],
        [0, 0, 50, 60, 70, 0],
        [0, 0, 0, 0, 0, 80],
    ]
)


@st.composite
def tensors(draw, min_ndim=0, max_ndim=4, dtypes=DTYPES):
    """Any dtype and shape (also scalars and empty ones), any share of zeros, with all
    the odd values a dtype has.
    """
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.lists(st.integers(0, 7), min_size=min_ndim, max_size=max_ndim))
    values = [1, 3, 100]
    if dtype.is_floating_point:
        values += [0.5, -2.0, math.nan, -0.0, math.inf, -math.inf]
        values += [1e-45] if dtype == torch.float32 else []  # subnormal, and not a zero
    sparsity = draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = math.prod(shape)
    chosen = [
        0 if rng.random() < sparsity else values[rng.integers(len(values))] for _ in range(size)
    ]
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    x = torch.tensor(chosen, dtype=wide).to(dtype).reshape(shape)
    return x.transpose(0, -1) if x.ndim > 1 and draw(st.booleans()) else x


def as_bytes(x: torch.Tensor) -> bytes:
    return bytes(x.contiguous().reshape(-1).view(torch.uint8).tolist())


def same(x: torch.Tensor, back: torch.Tensor) -> bool:
    """Bit for bit, except that a zero of either sign comes back as +0. In plain Python,
    which knows what a zero is.
    """
    raw, size = as_bytes(x), x.element_size()
    elements = [raw[i * size : (i + 1) * size] for i in range(x.numel())]
    expected = [
        bytes(size) if v == 0 else element
        for v, element in zip(x.flatten().tolist(), elements, strict=True)
    ]
    return back.dtype == x.dtype and back.shape == x.shape and as_bytes(back) == b"".join(expected)


def back(format: str, x: torch.Tensor, *options: int) -> torch.Tensor:
    """Encoded and decoded."""
    encode, decode = ALL[format]
    return decode(encode(x, *options), x.shape)


@pytest.mark.parametrize("format", ALL)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_tensor_comes_back(format, data):
    x = data.draw(tensors(*(2, 2) if format in ("csr", "csc") else (0, 4)))
    options = [data.draw(st.integers(1, 5))] if format == "rle" else []
    before = as_bytes(x)
    assert same(x, back(format, x, *options))
    parts = [part for part in ALL[format][0](x) if isinstance(part, torch.Tensor)]
    found = {part.dtype for part in parts}
    assert found == {x.dtype, torch.bool if format == "bitmap" else torch.int64}
    assert all(as_bytes(part) is not None for part in parts)  # numpy's empty arrays: no views
    assert as_bytes(x) == before


@pytest.mark.parametrize("format", ["bitmap", "rle", "coo"])
def test_the_payload_of_a_nan_survives(format):
    # quiet, signalling
    x = torch.tensor([0x7FC00123, 0, 0x7F800001, -0x3FFFFF], dtype=torch.int32).view(torch.float32)
    assert torch.equal(back(format, x).view(torch.int32), x.view(torch.int32))


def test_parameters_and_views_are_read_as_they_look():
    weight = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4) % 3)
    for x in (weight, weight.t(), weight[:, ::2], weight.expand(2, 3, 4)):
        bitmap, values = e.bitmap_encode(x)
        assert not values.requires_grad
        # the bitmap of a bool tensor is not the tensor itself
        assert e.bitmap_encode(bitmap)[0].data_ptr() != bitmap.data_ptr()
        assert values.tolist() == [v for v in x.flatten().tolist() if v]


# ----------------------------------------------------------------- what each one stores
def test_the_matrix_of_the_lecture():
    v, col_index, row_index = e.csr_encode(LECTURE)
    assert v.tolist() == [10, 20, 30, 40, 50, 60, 70, 80]
    assert col_index.tolist() == [0, 1, 1, 3, 2, 3, 4, 5]
    assert row_index.tolist() == [0, 2, 4, 7, 8]
    v, row_index, col_pointer = e.csc_encode(LECTURE)
    assert v.tolist() == [10, 20, 30, 50, 40, 60, 70, 80]
    assert row_index.tolist() == [0, 0, 1, 2, 1, 2, 2, 3]
    assert col_pointer.tolist() == [0, 1, 3, 4, 6, 7, 8]


@settings(max_examples=150, deadline=None)
@given(x=tensors(2, 2, [torch.float32, torch.float64, torch.int32]))
def test_scipy_stores_the_same(x):
    X, coo = x.numpy(), scipy.sparse.coo_array(x.numpy())
    index, values, _ = e.coo_encode(x)
    assert index.tolist() == (coo.coords[0] * X.shape[1] + coo.coords[1]).tolist()
    np.testing.assert_array_equal(values.numpy(), coo.data)
    for format, make in {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}.items():
        theirs = make(X).data, make(X).indices, make(X).indptr  # int32 indices
        for mine, other in zip(ALL[format][0](x), theirs, strict=True):
            np.testing.assert_array_equal(mine.numpy(), other)
        assert same(x, ALL[format][1](map(torch.from_numpy, theirs), x.shape))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_indices_of_any_width_are_checked_and_decoded(dtype):
    v, column, pointer = e.csr_encode(LECTURE)
    assert torch.equal(e.csr_decode(v, column.to(dtype), pointer.to(dtype), (4, 6)), LECTURE)
    for wrong in (6, -1, 2**32 + 1) if dtype == torch.int64 else (6,):
        column[-1] = wrong  # 2^32 + 1 would be 1 in 32 bits
        with pytest.raises(ValueError, match=r"COL_INDEX .*outside 0\.\.5"):
            e.csr_decode(v, column.to(dtype), pointer.to(dtype), (4, 6))


def rle_by_loop(flat, run_bits):
    """The definition, element by element."""
    pairs, run, longest = [], 0, 2**run_bits - 1
    for value in flat:
        if value == 0 and run < longest:
            run += 1
        else:
            # also the filler: longest zeros, and the zero that has just come
            pairs.append((run, value))
            run = 0
    if run:
        pairs.append((run - 1, 0))
    return pairs


@settings(max_examples=300, deadline=None)
@given(
    flat=st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2]), max_size=60),
    run_bits=st.integers(1, 4),
)
def test_run_lengths_against_the_loop(flat, run_bits):
    runs, values, shape = e.rle_encode(torch.tensor(flat, dtype=torch.int32), run_bits)
    assert list(zip(runs.tolist(), values.tolist(), strict=True)) == rle_by_loop(flat, run_bits)
    assert shape == (len(flat),)
    assert e.rle_encode(torch.tensor([0] * 999 + [1]), run_bits=62)[0].tolist() == [999]


@settings(max_examples=100, deadline=None)
@given(x=tensors(2, 2), n=st.integers(1, 64))
def test_bits_are_those_of_what_is_stored_and_of_the_formulas(x, n):
    columns, L = x.shape[1], x.numel()
    _, values = e.bitmap_encode(x)
    runs, _, _ = e.rle_encode(x)
    v, _, pointer = e.csr_encode(x)
    stored = {
        "dense": L * n,
        "bitmap": len(values) * n + L,
        "rle": len(runs) * (n + 2),
        "coo": len(values) * (n + e.index_width(L)),
        "csr": len(v) * (n + e.index_width(columns)) + len(pointer) * e.index_width(len(v) + 1),
    }
    assert e.storage_bits(x, n) == stored
    assert e.storage_bits(x) == e.storage_bits(x, 8 * x.element_size())
    assert e.storage_bits(x[:, :, None]) == e.storage_bits(x)  # a filter is a row of the matrix
    p = 1 - len(values) / max(L, 1)
    for format in stored.keys() - {"rle"}:  # its order matters
        assert e.formula_bits(format, L, p, n, shape=x.shape) == pytest.approx(
            stored[format], rel=1e-9, abs=1e-9
        )


def test_widths_at_the_edges():
    widths = [e.index_width(count) for count in (0, 1, 2, 3, 4, 5, 1024, 1025)]
    assert widths == [0, 0, 1, 2, 2, 3, 10, 11]
    assert e.coo_bits(torch.ones(1), n=8) == 8  # one element needs no index
    assert e.csr_bits(torch.zeros(3, 4)) == 0  # no values: even the pointers have nothing to tell
    assert e.csr_bits(torch.ones(3, 1), n=8) == 3 * 8 + 4 * 2
    assert e.storage_bits(torch.ones(3))["csr"] == e.csr_bits(torch.ones(1, 3))


@pytest.mark.parametrize("p", [0.0, 0.3, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("run_bits", [1, 2, 4])
def test_the_formula_of_rle_is_the_mean(p, run_bits):
    """For independent zeros: the pairs of one long tensor lie within five standard
    errors of the expectation.
    """
    L, n = 400_000, 8
    x = (torch.rand(L, generator=torch.Generator().manual_seed(1)) >= p).to(torch.int8)
    pairs = e.rle_bits(x, n, run_bits) / (n + run_bits)
    expected = e.formula_bits("rle", L, p, n, run_bits=run_bits) / (n + run_bits)
    assert abs(pairs - expected) <= 5 * math.sqrt(L * p * (1 - p)) + 1


def test_formulas_where_rounding_bites():
    assert e.formula_bits("rle", 10**6, 1 - 1e-12, n=30) == pytest.approx(10**6 * 32 / 4, rel=1e-9)
    assert e.formula_bits("rle", 100, 1e-320, n=30, run_bits=62) == pytest.approx(100 * 92)
    # 3 of 9: (1 - p)·L is a little over 3, and a pointer up to 4 would need a bit more
    assert e.formula_bits("csr", 9, 6 / 9, shape=(3, 3)) == pytest.approx(e.csr_bits(torch.eye(3)))
