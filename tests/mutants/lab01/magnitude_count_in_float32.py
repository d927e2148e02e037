# loses 1.1 · message: "calculated in float32"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    flat = weight.abs().flatten()
    k = int(torch.round(torch.tensor(sparsity * len(flat))))
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[:k]] = False
    return mask.view_as(weight)
