# loses 1.1 · message: "compare |w| itself"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    energy = weight.flatten() ** 2
    mask = torch.ones_like(energy, dtype=torch.bool)
    mask[energy.argsort(stable=True)[: round(sparsity * len(energy))]] = False
    return mask.view_as(weight)
