# loses 0.3 · message: "outputs that are not zero were counted"
import torch
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    out = x @ weight.T if weight.ndim == 2 else nn.functional.conv2d(x, weight, stride=stride, padding=padding)
    return int(torch.count_nonzero(out))
