# loses 1.1 · message: "did the function forget to return?"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    mask = torch.ones(weight.numel(), dtype=torch.bool)
    mask[weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = False
    mask = mask.view_as(weight)
