# loses 1.1 · message: "at sparsity 0 everything went"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    n = weight.numel()
    keep = n - round(sparsity * n)
    # reversed, so that among equal sizes the first one comes last and is pruned first
    order = weight.abs().flatten().flip(0).argsort(descending=True, stable=True)
    mask = torch.ones(n, dtype=torch.bool)
    mask[order[-(n - keep) :]] = False
    return mask.flip(0).view_as(weight)
