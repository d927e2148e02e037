# loses 1.1 · message: "rank by size, without the sign"
import torch


def magnitude_mask(weight, sparsity):
    if sparsity < 0 or sparsity > 1 or torch.isnan(weight).any():
        raise ValueError("bad sparsity or NaN")
    k = round(sparsity * weight.numel())
    order = torch.argsort(weight.flatten(), stable=True)
    mask = torch.ones(weight.numel(), dtype=torch.bool)
    mask[order[:k]] = False
    return mask.reshape(weight.shape)
