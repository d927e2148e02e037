# keeps 1.4
import numpy as np
import torch


def global_masks(weights, sparsity):
    names = [k for k, v in weights.items() if v.ndim >= 2]
    flat = np.concatenate([np.abs(weights[k].detach().numpy()).ravel() for k in names])
    if np.isnan(flat).any() or sparsity < 0 or sparsity > 1:
        raise ValueError("bad input")
    keep = np.ones(flat.size, dtype=bool)
    keep[np.argsort(flat, kind="stable")[: round(sparsity * flat.size)]] = False
    masks, start = {}, 0
    for k in names:
        stop = start + weights[k].numel()
        masks[k] = torch.from_numpy(keep[start:stop].copy()).reshape(weights[k].shape)
        start = stop
    return masks
