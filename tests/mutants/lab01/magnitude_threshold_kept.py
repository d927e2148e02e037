# loses 1.1 · message: "one too few"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    k = round(sparsity * weight.numel())
    if k == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    threshold = weight.abs().flatten().kthvalue(k).values
    return weight.abs() >= threshold
