# keeps 0.6
import math

import numpy as np
import torch


def coo_encode(x):
    a = x.numpy().ravel()
    index = np.flatnonzero(a)
    return torch.from_numpy(index), torch.from_numpy(a[index]), x.shape


def coo_decode(index, values, shape):
    out = np.zeros(shape, values.numpy().dtype)
    if len(index) != len(values) or (index < 0).any():
        raise ValueError("these do not belong together")
    try:
        out.flat[index.numpy()] = values.numpy()
    except IndexError:
        raise ValueError("a position lies outside")
    return torch.from_numpy(out)


def coo_bits(x, n=32):
    return np.count_nonzero(x.numpy()) * (n + math.ceil(math.log2(x.numel())))
