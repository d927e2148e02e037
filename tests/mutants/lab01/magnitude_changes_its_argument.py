# loses 1.1 · message: "your function changed the weight"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    size = weight.view(-1).abs_()
    mask = torch.ones(size.numel(), dtype=torch.bool)
    mask[size.argsort(stable=True)[: round(sparsity * size.numel())]] = False
    return mask.view_as(weight)
