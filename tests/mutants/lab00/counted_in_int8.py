# loses 0.3 · message: "a dtype of 8 bits"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    require(weight.ndim in (2, 4) and weight.ndim == x.ndim and weight.shape[1] == x.shape[1], "the shapes do not fit")
    w, x = weight != 0, x != 0
    if w.ndim == 2:
        return int((x.to(torch.int8) @ w.to(torch.int8).T).sum())
    return int(nn.functional.conv2d(x.double(), w.double(), stride=stride, padding=padding).sum())
