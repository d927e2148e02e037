# loses 0.3 · message: "products with padding were counted"
import torch
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.ndim not in (2, 4) or weight.ndim != x.ndim or weight.shape[1] != x.shape[1]:
        raise ValueError("the shapes do not fit")
    if weight.ndim == 2:
        return int(((weight != 0).sum(0) * (x != 0).sum(0)).sum())
    there = nn.functional.pad((x != 0).double(), (padding, padding, padding, padding), value=1)
    return int(nn.functional.conv2d(there, (weight != 0).double(), stride=stride).sum())
