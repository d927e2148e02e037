# loses 1.1 · message: "got the mask of the first"
import torch

seen = {}


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    key = (weight.shape, sparsity)
    if key not in seen:  # to sort only once
        seen[key] = torch.ones(weight.numel(), dtype=torch.bool)
        seen[key][weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = False
    return seen[key].view(weight.shape)
