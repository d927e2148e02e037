# keeps 1.3
import numpy as np
import torch


def grouped_mask(weight, sparsity, granularity):
    axes = {
        2: {"element": (), "filter": (1,)},
        4: {"element": (), "row": (3,), "kernel": (2, 3), "filter": (1, 2, 3)},
    }.get(weight.ndim, {})
    if granularity not in axes or sparsity < 0 or sparsity > 1:
        raise ValueError("no such granularity or sparsity")
    norm = np.abs(weight.detach().numpy().astype(np.float64)).sum(axis=axes[granularity], keepdims=True)
    if np.isnan(norm).any():
        raise ValueError("NaN")
    keep = np.ones(norm.size, bool)
    keep[np.argsort(norm.ravel(), kind="stable")[: round(sparsity * norm.size)]] = False
    return torch.from_numpy(np.broadcast_to(keep.reshape(norm.shape), tuple(weight.shape)).copy())
