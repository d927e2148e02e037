# keeps 0.4
import numpy as np
import torch


def bitmap_encode(x):
    a = x.numpy()
    present = a.astype(bool)
    return torch.from_numpy(present), torch.from_numpy(a[present])


def bitmap_decode(bitmap, values):
    if np.count_nonzero(bitmap.numpy()) != values.numel():
        raise ValueError("as many values as bits")
    out = np.zeros(tuple(bitmap.shape), dtype=values.numpy().dtype)
    np.place(out, bitmap.numpy(), values.numpy()) if values.numel() else None
    return torch.from_numpy(out)


def bitmap_bits(x, n=32):
    return np.count_nonzero(x.numpy()) * n + x.numel()
