# loses 1.1 · message: "holds weights"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    pruned = weight.clone().flatten()
    pruned[weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = 0
    return pruned.view_as(weight)
