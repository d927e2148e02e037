# keeps 0.7
import math

import numpy as np
import torch


def csr_encode(x2d):
    if x2d.ndim != 2:
        raise ValueError("a matrix")
    a = x2d.numpy()
    rows, columns = np.nonzero(a)
    pointer = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(a)))]).astype(np.int64)
    return torch.from_numpy(a[rows, columns]), torch.from_numpy(columns), torch.from_numpy(pointer)


def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    counts = np.diff(ROW_INDEX.numpy())
    if len(counts) != shape[0] or ROW_INDEX[-1] != len(v) or len(COL_INDEX) != len(v):
        raise ValueError("the arrays do not fit")
    a = np.zeros(shape, v.numpy().dtype)
    try:
        a[np.repeat(np.arange(shape[0]), counts), COL_INDEX.numpy()] = v.numpy()
    except IndexError as error:
        raise ValueError(str(error))
    return torch.from_numpy(a)


def csc_encode(x2d):
    if x2d.ndim != 2:
        raise ValueError("a matrix")
    return csr_encode(x2d.t().contiguous())


def csc_decode(v, ROW_INDEX, COL_POINTER, shape):
    return csr_decode(v, ROW_INDEX, COL_POINTER, tuple(shape)[::-1]).t()


def csr_bits(x2d, n=32):
    if x2d.ndim != 2:
        raise ValueError("a matrix")
    rows, columns = x2d.shape
    nnz = np.count_nonzero(x2d.numpy())
    return nnz * (n + math.ceil(math.log2(columns))) + (rows + 1) * math.ceil(math.log2(nnz + 1))
