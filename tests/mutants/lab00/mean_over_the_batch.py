# loses 0.3 · message: "the mean over the batch"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    w, x = (weight != 0).double(), (x != 0).double()
    out = x @ w.T if w.ndim == 2 else nn.functional.conv2d(x, w, stride=stride, padding=padding)
    return int(out.flatten(1).sum(1).mean())
