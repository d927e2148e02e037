# keeps 1.1
import torch


def magnitude_mask(weight, sparsity):
    if sparsity > 1 or sparsity < 0 or bool(torch.isnan(weight).any()):
        raise ValueError
    flat = torch.abs(weight).ravel()
    rank = torch.argsort(torch.argsort(flat, stable=True), stable=True)
    return torch.ge(rank, round(sparsity * flat.numel())).unflatten(0, weight.shape)
