# keeps 0.5
import numpy as np
import torch


def rle_encode(x, run_bits=2):
    if run_bits < 1:
        raise ValueError("run_bits")
    full = 2**run_bits
    flat = x.numpy().ravel() + x.numpy().dtype.type(0)  # -0.0 + 0 is +0.0
    stops = np.flatnonzero(flat)
    if flat.size and flat[-1] == 0:
        stops = np.append(stops, flat.size - 1)
    gaps = np.diff(stops, prepend=-1) - 1
    runs = [np.concatenate([np.full(g // full, full - 1), [g % full]]) for g in gaps]
    values = [np.append(np.zeros(g // full, flat.dtype), flat[i]) for g, i in zip(gaps, stops)]
    runs = np.concatenate(runs) if runs else np.zeros(0)
    values = np.concatenate(values) if values else flat
    return torch.from_numpy(runs.astype(np.int64)), torch.from_numpy(values), tuple(x.shape)


def rle_decode(runs, values, shape):
    lengths = runs.numpy() + 1
    if lengths.sum() != np.prod(shape):
        raise ValueError("the pairs do not fill the shape")
    x = np.zeros(int(np.prod(shape)), values.numpy().dtype)
    x[lengths.cumsum() - 1] = values.numpy()
    return torch.from_numpy(x.reshape(shape))
