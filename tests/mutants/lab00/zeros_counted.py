# loses 0.3 · message: "the products with a zero in them were counted"
import torch
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")

    def layer(w, x):
        return x @ w.T if w.ndim == 2 else nn.functional.conv2d(x, w, stride=stride, padding=padding)

    all_of_them = layer(torch.ones_like(weight).double(), torch.ones_like(x).double()).sum()
    both = layer((weight != 0).double(), (x != 0).double()).sum()
    return int(all_of_them - both)
