# loses 1.1 · message: "promises no order among equals"
import numpy as np
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    size = np.abs(weight.detach().numpy()).ravel()
    if np.isnan(size).any():
        raise ValueError("NaN")
    order = np.argsort(size)
    mask = np.ones(size.size, dtype=bool)
    mask[order[: round(sparsity * size.size)]] = False
    return torch.from_numpy(mask).reshape(weight.shape)
