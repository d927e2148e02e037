# loses 1.1 · message: "at sparsity 0 nothing goes"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    flat = weight.abs().flatten()
    pruned = flat.clone()
    pruned[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = 0
    return (pruned != 0).view_as(weight)
