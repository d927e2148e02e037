# loses 1.1 · message: "a sparsity of -0.1"
import torch


def magnitude_mask(weight, sparsity):
    if sparsity > 1:
        raise ValueError("cannot prune more than everything")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    flat = weight.abs().flatten()
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = False
    return mask.view_as(weight)
