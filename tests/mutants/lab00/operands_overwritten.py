# loses 0.3 · message: "your function changed"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    weight[weight != 0] = 1
    x[x != 0] = 1
    if weight.ndim == 2:
        return int((x.double() @ weight.double().T).sum())
    return int(nn.functional.conv2d(x.double(), weight.double(), stride=stride, padding=padding).sum())
