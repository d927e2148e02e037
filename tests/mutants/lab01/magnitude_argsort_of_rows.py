# loses 1.1 · message: "which step of your code sees one dimension only"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    order = weight.abs().argsort(stable=True).flatten()  # the ranks within each row
    mask = torch.ones(weight.numel(), dtype=torch.bool)
    mask[order[: round(sparsity * weight.numel())]] = False
    return mask.view_as(weight)
