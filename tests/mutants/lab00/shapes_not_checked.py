# loses 0.3 · message: "should raise a ValueError"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    w, x = (weight != 0).double(), (x != 0).double()
    if w.ndim == 2:
        return int((x @ w.T).sum())
    return int(nn.functional.conv2d(x, w, stride=stride, padding=padding).sum())
