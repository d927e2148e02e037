# loses 1.1 · message: "kept or not is a bool"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    mask = torch.ones(weight.numel(), dtype=torch.int64)
    mask[weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = 0
    return mask.view_as(weight)
