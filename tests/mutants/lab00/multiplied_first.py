# loses 0.3 · message: "multiplied first and looked at afterwards"
import torch
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    if weight.ndim == 2:
        return sum(int(torch.count_nonzero(row * weight)) for row in x)
    patches = nn.functional.unfold(x, weight.shape[2:], stride=stride, padding=padding)  # (B, C·R·S, places)
    return sum(int(torch.count_nonzero(patches * one.flatten()[:, None])) for one in weight)
