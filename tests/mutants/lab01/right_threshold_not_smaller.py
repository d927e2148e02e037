# keeps 1.2
import torch


def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("negative")
    return torch.logical_not(weight.abs().lt(a))
