# keeps 1.1
import numpy as np
import torch


def magnitude_mask(weight, sparsity):
    if not 0.0 <= sparsity <= 1.0:
        raise ValueError(f"sparsity {sparsity}")
    size = np.abs(weight.detach().cpu().numpy()).ravel()
    if np.isnan(size).any():
        raise ValueError("a weight is NaN")
    order = np.lexsort((np.arange(size.size), size))
    mask = np.ones(size.size, dtype=bool)
    mask[order[: round(sparsity * size.size)]] = False
    return torch.from_numpy(mask.reshape(tuple(weight.shape)))
