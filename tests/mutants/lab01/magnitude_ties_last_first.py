# loses 1.1 · message: "of equal ones the last went"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    n = weight.numel()
    order = weight.abs().flatten().argsort(descending=True, stable=True)
    mask = torch.zeros(n, dtype=torch.bool)
    mask[order[: n - round(sparsity * n)]] = True
    return mask.view_as(weight)
