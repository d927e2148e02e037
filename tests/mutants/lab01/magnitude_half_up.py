# loses 1.1 · message: "a half was rounded up"
import math

import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity must be between 0 and 1")
    if weight.isnan().any():
        raise ValueError("NaN in weight")
    k = math.floor(sparsity * weight.numel() + 0.5)
    order = weight.abs().flatten().argsort(stable=True)
    mask = torch.ones(weight.numel(), dtype=torch.bool)
    mask[order[:k]] = False
    return mask.view_as(weight)
