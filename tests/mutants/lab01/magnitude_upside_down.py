# loses 1.1 · message: "the mask is upside down"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    flat = weight.abs().flatten()
    mask = torch.zeros_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = True  # the ones to prune
    return mask.view_as(weight)
