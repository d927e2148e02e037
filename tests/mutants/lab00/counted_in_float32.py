# loses 0.3 · message: "a float32 cannot hold every whole number"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    w, x = (weight != 0).float(), (x != 0).float()
    if w.ndim == 2:
        return int((x @ w.T).sum())
    return int(nn.functional.conv2d(x, w, stride=stride, padding=padding).sum())
