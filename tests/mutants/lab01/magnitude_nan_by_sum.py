# loses 1.1 · message: "one inf and one -inf your code raised ValueError"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.sum().isnan():  # inf - inf is NaN
        raise ValueError("bad input")
    flat = weight.abs().flatten()
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = False
    return mask.view_as(weight)
