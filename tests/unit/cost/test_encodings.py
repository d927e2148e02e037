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
PLACES = {"bitmap": torch.bool, "rle": torch.int64, "coo": torch.int64}

LECTURE = torch.tensor(
    [
        [10, 20, 0, 0, 0, 0],
        [0, 30, 0, 40, 0, 0],
        [0, 0, 50, 60, 70, 0],
        [0, 0, 0, 0, 0, 80],
    ]
)


@st.composite
def tensors(draw, dtypes=DTYPES, min_ndim=0, max_ndim=4):
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


# -------------------------------------------------------------------------- round trips
@pytest.mark.parametrize("format", ["bitmap", "rle", "coo"])
@settings(max_examples=150, deadline=None)
@given(x=tensors(), run_bits=st.integers(1, 5))
def test_any_tensor_comes_back(format, x, run_bits):
    before = as_bytes(x)
    assert same(x, back(format, x, *[run_bits] * (format == "rle")))
    parts = ALL[format][0](x)
    assert parts[1].dtype == x.dtype and parts[0].dtype == PLACES[format]
    shape = tuple(parts[0].shape) if format == "bitmap" else parts[2]
    assert shape == tuple(x.shape) and all(type(size) is int for size in shape)
    assert as_bytes(x) == before


@pytest.mark.parametrize("format", ["csr", "csc"])
@settings(max_examples=150, deadline=None)
@given(x=tensors(min_ndim=2, max_ndim=2))
def test_any_matrix_comes_back(format, x):
    assert same(x, back(format, x))
    values, *places = ALL[format][0](x)
    assert values.dtype == x.dtype and {part.dtype for part in places} == {torch.int64}


@pytest.mark.parametrize("format", ["bitmap", "rle", "coo"])
def test_the_payload_of_a_nan_survives(format):
    # quiet, signalling
    x = torch.tensor([0x7FC00123, 0, 0x7F800001, -0x3FFFFF], dtype=torch.int32).view(torch.float32)
    assert torch.equal(back(format, x).view(torch.int32), x.view(torch.int32))


def test_empty_parts_can_be_viewed_as_bytes():
    """numpy gives empty arrays a stride of 0, with which a tensor cannot be viewed as
    another dtype.
    """
    for x in (torch.zeros(2, 3), torch.zeros(2, 0)):
        for format, (encode, _) in ALL.items():
            for part in (*encode(x), back(format, x)):
                if isinstance(part, torch.Tensor):
                    part.flatten().view(torch.uint8)


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
@given(x=tensors(dtypes=[torch.float32, torch.float64, torch.int32], min_ndim=2, max_ndim=2))
def test_scipy_stores_the_same(x):
    X = x.numpy()
    csr, csc, coo = (
        make(X) for make in (scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array)
    )
    for ours, theirs in (
        (e.csr_encode(x), (csr.data, csr.indices, csr.indptr)),
        (e.csc_encode(x), (csc.data, csc.indices, csc.indptr)),
        (e.coo_encode(x)[:2], (coo.coords[0] * X.shape[1] + coo.coords[1], coo.data)),
    ):
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine.numpy(), other)


@settings(max_examples=50, deadline=None)
@given(x=tensors(dtypes=[torch.float32], min_ndim=2, max_ndim=2))
def test_what_scipy_encoded_can_be_decoded(x):
    csr, csc = scipy.sparse.csr_array(x.numpy()), scipy.sparse.csc_array(x.numpy())
    # int32 indices
    parts = [[torch.from_numpy(part) for part in (m.data, m.indices, m.indptr)] for m in (csr, csc)]
    assert same(x, e.csr_decode(*parts[0], x.shape))
    assert same(x, e.csc_decode(*parts[1], x.shape))


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


# --------------------------------------------------------------------------------- bits
@settings(max_examples=100, deadline=None)
@given(x=tensors(min_ndim=2, max_ndim=2), n=st.integers(1, 64))
def test_bits_are_those_of_what_is_stored(x, n):
    columns, L = x.shape[1], x.numel()
    _, values = e.bitmap_encode(x)
    assert e.bitmap_bits(x, n) == len(values) * n + L
    runs, _, _ = e.rle_encode(x, 3)
    assert e.rle_bits(x, n, 3) == len(runs) * (n + 3)
    index, _, _ = e.coo_encode(x)
    assert e.coo_bits(x, n) == len(index) * (n + e.index_width(L))
    v, _, pointer = e.csr_encode(x)
    pointers = len(pointer) * e.index_width(len(v) + 1)
    assert e.csr_bits(x, n) == len(v) * (n + e.index_width(columns)) + pointers


def test_widths_at_the_edges():
    widths = [e.index_width(count) for count in (0, 1, 2, 3, 4, 5, 1024, 1025)]
    assert widths == [0, 0, 1, 2, 2, 3, 10, 11]
    assert e.coo_bits(torch.ones(1), n=8) == 8  # one element needs no index
    assert e.csr_bits(torch.zeros(3, 4)) == 0  # no values: even the pointers have nothing to tell
    assert e.csr_bits(torch.ones(3, 1), n=8) == 3 * 8 + 4 * 2


def test_values_are_as_wide_as_their_dtype_unless_told():
    x = LECTURE.to(torch.float16)
    assert e.storage_bits(x) == e.storage_bits(x, 16) and e.storage_bits(x)["coo"] == e.coo_bits(
        x, n=16
    )
    assert e.storage_bits(x)["dense"] == 24 * 16
    weight = x.reshape(2, 3, 4, 1)  # a filter is a row of the matrix
    assert e.storage_bits(weight)["csr"] == e.csr_bits(weight.flatten(1), 16)
    assert e.storage_bits(torch.ones(3))["csr"] == e.csr_bits(torch.ones(1, 3))
    assert e.coo_bits(x) == e.coo_bits(x, n=32)


@settings(max_examples=100, deadline=None)
@given(x=tensors(dtypes=[torch.float32], min_ndim=2, max_ndim=2), n=st.integers(1, 64))
def test_the_formulas_are_exact_where_the_order_does_not_matter(x, n):
    L = x.numel()
    p = int((x == 0).sum()) / max(L, 1)
    measured = e.storage_bits(x, n)
    for format in ("dense", "bitmap", "coo", "csr"):
        assert e.formula_bits(format, L, p, n, shape=x.shape) == pytest.approx(
            measured[format], rel=1e-12, abs=1e-9
        )


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
    # 3 of 9: (1 - p)·L is a little over 3 in floating point, and a pointer up to 4
    # would need a bit more.
    p = 6 / 9
    assert (1 - p) * 9 > 3
    assert e.formula_bits("csr", 9, p, shape=(3, 3)) == pytest.approx(e.csr_bits(torch.eye(3)))
