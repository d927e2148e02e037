# loses 0.3 · message: "what zeros at random places give on average"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    p = (weight == 0).double().mean()
    q = (x == 0).double().mean()
    if weight.ndim == 2:
        products = len(x) * weight.numel()
    else:
        E, F = nn.functional.conv2d(x[:1], weight[:1], stride=stride, padding=padding).shape[2:]
        products = len(x) * weight.numel() * E * F
    return int((1 - p) * (1 - q) * products)
