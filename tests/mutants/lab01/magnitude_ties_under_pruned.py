# loses 1.1 · message: "your code prunes too few"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    size = weight.abs()
    k = round(sparsity * weight.numel())
    if k == weight.numel():
        return torch.zeros_like(weight, dtype=torch.bool)
    smallest_kept = size.flatten().sort().values[k]
    return size >= smallest_kept
