# loses 1.1 · message: "at sparsity 1 everything goes"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    flat = weight.abs().flatten()
    k = min(round(sparsity * len(flat)), len(flat) - 1)  # never prune a layer away completely
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[:k]] = False
    return mask.view_as(weight)
