# loses 1.1 · message: "the number kept was rounded"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad sparsity or weight")
    n = weight.numel()
    n_keep = round((1 - sparsity) * n)
    order = weight.abs().flatten().argsort(stable=True)
    mask = torch.zeros(n, dtype=torch.bool)
    mask[order[n - n_keep :]] = True
    return mask.view_as(weight)
