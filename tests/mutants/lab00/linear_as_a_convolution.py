# loses 0.3 · message: "There is no picture to slide over"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    w, x = (weight != 0).double(), (x != 0).double()
    if w.ndim == 2:
        w, x = w[:, :, None, None], x[:, :, None, None]
    return int(nn.functional.conv2d(x, w, stride=stride, padding=padding).sum())
