# loses 1.1 · message: "each row lost its own share"
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad input")
    order = weight.abs().argsort(stable=True)  # along the last dimension
    mask = torch.ones_like(weight, dtype=torch.bool)
    k = round(sparsity * weight.shape[-1])
    return mask.scatter(-1, order[..., :k], False)
