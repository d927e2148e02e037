# keeps 1.1
import torch


def magnitude_mask(weight, sparsity):
    if not (sparsity >= 0 and sparsity <= 1):
        raise ValueError("sparsity")
    if (weight != weight).any():
        raise ValueError("nan")
    sizes = weight.detach().abs().flatten().tolist()
    keep = [True] * len(sizes)
    for _ in range(round(len(sizes) * sparsity)):
        i = sizes.index(min(sizes))  # index() finds the first
        sizes[i] = float("inf")
        keep[i] = False
    return torch.tensor(keep).reshape(weight.shape)
