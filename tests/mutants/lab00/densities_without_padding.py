# loses 0.3 · message: "count these zeros, where they are"
import torch
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.ndim != x.ndim or weight.shape[1] != x.shape[1]:
        raise ValueError("the shapes do not fit")
    density = (weight != 0).double().mean() * (x != 0).double().mean()
    if weight.ndim == 2:
        products = len(x) * weight.numel()
    else:
        ones = torch.ones_like(x).double()
        products = nn.functional.conv2d(ones, torch.ones_like(weight).double(), stride=stride, padding=padding).sum()
    return round(float(density * products))
