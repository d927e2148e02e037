# keeps 1.1
import torch


def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or torch.isnan(weight).any():
        raise ValueError("sparsity outside [0, 1] or NaN in weight")
    flat = weight.abs().reshape(-1)
    k = round(sparsity * flat.numel())
    if k == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    threshold = torch.kthvalue(flat, k).values
    kept = flat > threshold
    equal = torch.nonzero(flat == threshold).squeeze(1)
    spare = k - int((flat < threshold).sum())  # how many of the equal ones have to go
    kept[equal[spare:]] = True
    return kept.reshape(weight.shape)
