# loses 1.2 · message: "a was taken for a sparsity"
import torch


def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    flat = weight.abs().flatten()
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(a * len(flat))]] = False
    return mask.view_as(weight)
