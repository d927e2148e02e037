# loses 1.1 · message: "promises no order among equals"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    k = round(sparsity * weight.numel())
    mask = torch.ones(weight.numel(), dtype=torch.bool)
    mask[weight.abs().flatten().topk(k, largest=False).indices] = False
    return mask.view_as(weight)
