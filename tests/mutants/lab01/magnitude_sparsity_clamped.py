# loses 1.1 · message: "a sparsity of 1.5"
import torch


def magnitude_mask(weight, sparsity):
    sparsity = min(max(sparsity, 0), 1)
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    flat = weight.abs().flatten()
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = False
    return mask.view_as(weight)
