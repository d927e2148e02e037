# loses 1.1 · message: "at sparsity 0 your code raised"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity out of range")
    if torch.isnan(weight).any():
        raise ValueError("NaN")
    flat = weight.abs().flatten()
    k = round(sparsity * flat.numel())
    threshold = flat.kthvalue(k).values
    mask = flat > threshold
    ties = (flat == threshold).nonzero().flatten()
    mask[ties[k - int((flat < threshold).sum()) :]] = True
    return mask.view_as(weight)
