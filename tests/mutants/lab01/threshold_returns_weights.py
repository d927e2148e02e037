# loses 1.2 · message: "holds weights"
import torch


def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return torch.where(weight.abs() >= a, weight, 0.0)
