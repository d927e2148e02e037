# loses 1.1 · message: "a threshold cannot promise a number"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    if sparsity == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    return weight.abs() > torch.quantile(weight.abs(), sparsity)
