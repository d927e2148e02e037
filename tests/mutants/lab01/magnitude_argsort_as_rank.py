# loses 1.1 · message: "was kept: the smallest go first"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    ranks = weight.abs().flatten().argsort(stable=True)  # the rank of each weight
    return (ranks >= round(sparsity * weight.numel())).view_as(weight)
