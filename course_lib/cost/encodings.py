"""Five ways to store a tensor that is mostly zeros: bitmap, run lengths, COO, CSR and
CSC.

Each format is a pair of functions, ``*_encode`` and ``*_decode``, and the number of bits
that it takes (``*_bits``, for the zeros that are there). ``formula_bits`` predicts the
bits from the sparsity alone.

- A tensor has any real dtype and, unless a format needs a matrix, any shape. Elements are
  visited in row-major order (CSC: column by column).
- A zero is whatever compares equal to zero: -0.0 comes back as +0.0, NaN and the
  infinities come back bit for bit.
- Indices and runs are int64, values keep the dtype. Encodings are on the CPU and have no
  graph.
- Every decoder raises ValueError if its arrays do not fit together or do not fit the
  shape.

Source: Sze, Chen, Yang and Emer 2020, "Efficient Processing of Deep Neural Networks",
chapter 8. CSR and CSC: Saad 2003, "Iterative Methods for Sparse Linear Systems", section
3.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from course_lib.checks import check_fraction

Shape = tuple[int, ...]

FORMATS = ("dense", "bitmap", "rle", "coo", "csr")


# ------------------------------------------------------------------------------- bitmap
def bitmap_encode(x: Tensor) -> tuple[Tensor, Tensor]:
    """One bit per element that says whether it is there, and the elements that are.

    Returns:
        ``bitmap``, bool with the shape of ``x``, and ``values`` (nnz,), the non-zeros
        in row-major order.
    """
    present, _, values = _nonzeros(x)
    return present.view(x.shape), values


def bitmap_decode(bitmap: Tensor, values: Tensor) -> Tensor:
    """Put ``values`` (nnz,) where ``bitmap`` is True; undoes ``bitmap_encode``."""
    if bitmap.dtype != torch.bool:
        raise ValueError(f"a bitmap is a bool tensor, got {bitmap.dtype}")
    index = _tensor(np.flatnonzero(_flat(bitmap).numpy()))
    _check_integers("the list of marked elements", index, values)
    return _place(index, values, bitmap.shape)


def bitmap_bits(x: Tensor, n: int = 32) -> int:
    """Bits of ``x`` as a bitmap with ``n``-bit values: (1-p)·L·n + L."""
    return _count(x) * n + x.numel()


# -------------------------------------------------------------------------- run lengths
def rle_encode(x: Tensor, run_bits: int = 2) -> tuple[Tensor, Tensor, Shape]:
    """Pairs (r, v): r zeros, then the value v. A run has a field of k bits, so r is at
    most 2^k - 1.

    A longer run begins with filler pairs (2^k - 1, 0), each of which stands for 2^k
    zeros: the run, and the zero that is its value. So do the r > 0 zeros left at the
    end when no value follows: they become (r - 1, 0).

    Args:
        run_bits: k, the width of the run field in bits, 1 to 62.

    Returns:
        ``runs`` (pairs,), ``values`` (pairs,), and the shape of ``x``.

    Source: Chen et al. 2016, "Eyeriss", section V-E, has fillers like these.
    """
    longest = _longest_run(run_bits)
    _, index, nonzeros = _nonzeros(x)
    # Zeros before each value, and (last) after the last value.
    gaps = np.diff(index, prepend=-1, append=x.numel()) - 1  # (nnz + 1,)
    fillers = gaps >> run_bits  # filler pairs that each gap needs
    left = gaps & longest  # zeros that are left for the pair of the value itself
    tail = 1 if left[-1] else 0
    # The i-th value stands behind the i values before it and all fillers up to its own.
    place = np.arange(len(index)) + np.cumsum(fillers[:-1])  # (nnz,)
    # (pairs,) a filler until told otherwise
    runs = np.full(len(index) + int(fillers.sum()) + tail, longest)
    runs[place] = left[:-1]
    if tail:
        runs[-1] = left[-1] - 1
    values = _place(_tensor(place), nonzeros, (len(runs),))
    return _tensor(runs), values, tuple(x.shape)


def rle_decode(runs: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    """Undo ``rle_encode``: every pair covers its run and one element more, so a running
    sum says where each value goes. (Fillers are pairs like any other: the width of the
    run field is not needed.)
    """
    _check_integers("runs", runs, values)
    if len(runs) and int(runs.min()) < 0:
        raise ValueError(f"a run of zeros cannot be shorter than 0, got {int(runs.min())}")
    # (pairs,) elements covered up to and including each pair
    ends = torch.cumsum(runs.cpu() + 1, 0)
    covered = int(ends[-1]) if len(ends) else 0
    if covered != math.prod(shape):
        raise ValueError(
            f"the pairs cover {covered} elements, the shape {tuple(shape)} has {math.prod(shape)}"
        )
    return _place(ends - 1, values, shape)


def rle_bits(x: Tensor, n: int = 32, run_bits: int = 2) -> int:
    """Bits of ``x`` in run lengths with ``n``-bit values: pairs·(n + k), fillers and
    the pair of trailing zeros included.
    """
    return len(rle_encode(x, run_bits)[0]) * (n + run_bits)


# -------------------------------------------------------------------------- coordinates
def coo_encode(x: Tensor) -> tuple[Tensor, Tensor, Shape]:
    """The non-zeros, each with its position in the flattened tensor.

    Returns:
        ``index`` (nnz,), increasing; ``values`` (nnz,); and the shape of ``x``.
    """
    _, index, values = _nonzeros(x)
    return _tensor(index), values, tuple(x.shape)


def coo_decode(index: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    """Put each value at its flat index; undoes ``coo_encode``. The indices may come in
    any order, each once.
    """
    _check_integers("index", index, values)
    return _place(index.cpu(), values, shape)


def coo_bits(x: Tensor, n: int = 32) -> int:
    """Bits of ``x`` as coordinates with ``n``-bit values: nnz·(n + ⌈log₂ L⌉). The only
    index of a scalar takes 0 bits.
    """
    return _count(x) * (n + index_width(x.numel()))


# ------------------------------------------------------------- compressed rows, columns
def csr_encode(x2d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The non-zeros row by row, the column of each, and where each row begins.

    Returns:
        For ``x2d`` (R, C): ``v`` (nnz,), ``COL_INDEX`` (nnz,) and ``ROW_INDEX`` (R + 1,):
        row r is ``v[ROW_INDEX[r]:ROW_INDEX[r+1]]``, so the last entry is nnz, and an
        empty row repeats its neighbour's.
    """
    rows, columns = _matrix_shape(x2d.shape)
    _, index, values = _nonzeros(x2d)
    begins = np.arange(rows + 1) * columns  # flat index of the first element of each row
    # A binary search for R + 1 numbers among the sorted indices costs next to nothing;
    # a count per row would read them all.
    pointer = np.searchsorted(index, begins)
    # The column is index mod C. Subtracting each row's begin gives the same, and a
    # 64-bit division is slow.
    column = index - np.repeat(begins[:-1], np.diff(pointer))
    return values, _tensor(column), _tensor(pointer)


def csr_decode(v: Tensor, COL_INDEX: Tensor, ROW_INDEX: Tensor, shape: Sequence[int]) -> Tensor:
    """Undo ``csr_encode``."""
    return _decode(sparse.csr_array, v, "COL_INDEX", COL_INDEX, ROW_INDEX, shape)


def csr_bits(x2d: Tensor, n: int = 32) -> int:
    """Bits of a matrix (R, C) in CSR with ``n``-bit values: nnz·(n + ⌈log₂
    C⌉) + (R+1)·⌈log₂(nnz+1)⌉.
    """
    rows, columns = _matrix_shape(x2d.shape)
    nnz = _count(x2d)
    return nnz * (n + index_width(columns)) + (rows + 1) * index_width(nnz + 1)


def csc_encode(x2d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """CSR of the transpose: ``v`` (nnz,) column by column, ``ROW_INDEX`` (nnz,), and
    ``COL_POINTER`` (C + 1,), where each column begins.
    """
    _matrix_shape(x2d.shape)
    return csr_encode(x2d.t())


def csc_decode(v: Tensor, ROW_INDEX: Tensor, COL_POINTER: Tensor, shape: Sequence[int]) -> Tensor:
    """Undo ``csc_encode``. The result is stored row by row like any other tensor."""
    return _decode(sparse.csc_array, v, "ROW_INDEX", ROW_INDEX, COL_POINTER, shape)


# ------------------------------------------------------------------------ counting bits
def index_width(count: int) -> int:
    """Bits that tell ``count`` things apart: ⌈log₂ count⌉, and 0 where there is nothing
    to tell (count 0 or 1).
    """
    return max(count - 1, 0).bit_length()


def storage_bits(x: Tensor, n: int | None = None) -> dict[str, int]:
    """Measured bits of one tensor in every format of ``FORMATS``, with ``n``-bit values
    (None: as wide as the dtype). In CSR an entry of the first axis (a filter) is a row.
    """
    n = 8 * x.element_size() if n is None else n
    matrix = x.reshape(1, -1) if x.ndim < 2 else x.reshape(x.shape[0], math.prod(x.shape[1:]))
    return {
        "dense": x.numel() * n,
        "bitmap": bitmap_bits(x, n),
        "rle": rle_bits(x, n),
        "coo": coo_bits(x, n),
        "csr": csr_bits(matrix, n),
    }


def formula_bits(
    format: str,
    L: int,
    p: float,
    n: int = 32,
    *,
    run_bits: int = 2,
    shape: Sequence[int] | None = None,
) -> float:
    """Bits that a format is expected to take, from the sparsity alone.

    For bitmap, COO and CSR this is exact for every tensor with (1-p)·L non-zeros,
    wherever they lie. For RLE the order matters: the formula is the expectation for
    independent zeros in a long tensor. A run that goes on for ever would begin with a
    value with probability 1-p, and needs a pair more whenever it has 2^k zeros: a
    geometric series, so there are (1-p)/(1-p^(2^k)) pairs per element.

    Args:
        format: one of ``FORMATS``.
        L: number of elements.
        p: sparsity, the fraction of zeros, in [0, 1].
        n: bits per value.
        run_bits: k, the width of the run field (RLE only).
        shape: (R, C), needed for CSR.
    """
    nonzeros = (1 - check_fraction(p, "p", "the fraction of zeros")) * L
    span = _longest_run(run_bits) + 1  # zeros that one filler pair stands for
    pairs = L * (1 / span if p == 1 else (1 - p) / (1 - p**span))
    found = {
        "dense": L * n,
        "bitmap": nonzeros * n + L,
        "rle": pairs * (n + run_bits),
        "coo": nonzeros * (n + index_width(L)),
    }
    if format in found:
        return found[format]
    if format != "csr":
        raise ValueError(f"format is one of {', '.join(FORMATS)}; got {format!r}")
    if shape is None or math.prod(shape) != L:
        raise ValueError(f"shape is (rows, columns) with L = {L} elements for CSR; got {shape}")
    rows, columns = _matrix_shape(shape)
    # Rounded first: (1 - 0.9) * 1000 is a little under 100, and the width must not jump
    # on a rounding error.
    width = index_width(math.ceil(round(nonzeros, 6)) + 1)
    return nonzeros * (n + index_width(columns)) + (rows + 1) * width


# ------------------------------------------------------------ what all formats stand on
def _flat(x: Tensor) -> Tensor:
    """(L,) the elements of ``x`` in row-major order, on the CPU, without a graph."""
    if x.is_complex():
        raise ValueError("x is complex, and encodings store real numbers: view_as_real first")
    return x.detach().cpu().reshape(-1)


def _tensor(array: np.ndarray) -> Tensor:
    """On the same memory; an empty one with the usual stride (numpy says 0: views would
    fail).
    """
    tensor = torch.from_numpy(array)
    return tensor if array.size else tensor.new_empty(array.shape)


def _bits(flat: Tensor) -> np.ndarray:
    """The values as integers of the same width: they are moved, never computed with.
    (numpy has no bfloat16.)
    """
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return flat.view(widths[flat.element_size()]).numpy()


def _nonzeros(x: Tensor) -> tuple[Tensor, np.ndarray, Tensor]:
    """(L,) whether an element is there, and the (nnz,) positions and values of those that
    are.
    """
    flat = _flat(x)
    # .bool() says the same as != 0, also of NaN, and is four times as fast. A bool tensor
    # would come back as itself.
    present = flat.clone() if flat.dtype == torch.bool else flat.bool()
    # numpy finds the True entries of a bool array about four times as fast as
    # torch.nonzero does on one thread, and seven times as fast as either library finds
    # non-zeros in floats.
    index = np.flatnonzero(present.numpy())
    return present, index, _tensor(_bits(flat).take(index)).view(flat.dtype)


def _count(x: Tensor) -> int:
    return int(_flat(x).bool().count_nonzero())


def _place(index: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor of zeros of ``shape`` with ``values`` at the flat positions
    ``index``.
    """
    bits = _bits(_flat(values))
    # numpy's zeros are pages that the system clears when they are first written, a
    # moment before the value is written. torch.zeros would clear the whole tensor
    # first, and by then the beginning has left the cache.
    out = _tensor(np.zeros(math.prod(shape), bits.dtype))
    try:
        out.scatter_(0, index.long(), _tensor(bits))  # checks every index on its way
    except (IndexError, RuntimeError) as error:
        raise ValueError(f"an index does not fit the shape {tuple(shape)}: {error}") from None
    return out.view(values.dtype).view(tuple(shape))


def _longest_run(run_bits: int) -> int:
    if not 1 <= run_bits <= 62:
        raise ValueError(f"run_bits is the width of the run field, 1 to 62 bits, got {run_bits}")
    return (1 << run_bits) - 1


def _matrix_shape(shape: Sequence[int]) -> tuple[int, int]:
    if len(shape) != 2:
        raise ValueError(
            f"CSR and CSC store matrices; got the shape {tuple(shape)}: flatten a filter into a row"
            " first"
        )
    return int(shape[0]), int(shape[1])


def _check_integers(name: str, index: Tensor, values: Tensor) -> None:
    """Raises ValueError unless there is one integer for every value."""
    if index.is_floating_point() or index.dtype == torch.bool:
        raise ValueError(f"{name} must be an integer tensor, got {index.dtype}")
    if index.ndim != 1 or index.shape != values.shape:
        raise ValueError(
            f"{name} must have one entry for every value: got shapes {tuple(index.shape)} and"
            f" {tuple(values.shape)}"
        )


def _decode(
    kind: Any, v: Tensor, name: str, index: Tensor, pointer: Tensor, shape: Sequence[int]
) -> Tensor:
    """The matrix of these rows, or columns, if the three arrays can belong to one."""
    size = _matrix_shape(shape)
    major, minor = size if kind is sparse.csr_array else size[::-1]
    _check_integers(name, index, v)
    _check_integers("the pointer", pointer, pointer)
    begins, places = (part.cpu().long().contiguous().numpy() for part in (pointer, index))
    ends = [0, len(v)]
    if len(begins) != major + 1 or [*begins[[0, -1]]] != ends or (np.diff(begins) < 0).any():
        raise ValueError(
            f"the pointer must have {major + 1} entries that grow from 0 to the number of values,"
            f" {len(v)}; got {len(begins)} entries"
        )
    # A column that is too large would land in the next row without an error. Read as
    # unsigned, a negative index is a huge one: one pass instead of two.
    if len(places) and places.view(np.uint64).max() >= minor:
        raise ValueError(f"{name} holds an entry outside 0..{minor - 1}")
    bits = _bits(_flat(v))
    matrix = kind(size, dtype=bits.dtype)
    # set like this they are not checked again
    matrix.data, matrix.indices, matrix.indptr = bits, places, begins
    return _tensor(matrix.toarray(order="C")).view(v.dtype)
