# loses 0.3 · message: "only zeros among the weights were left out"
from torch import nn


def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.ndim != x.ndim or weight.shape[1] != x.shape[1]:
        raise ValueError("the shapes do not fit")
    kept = int((weight != 0).sum())
    if weight.ndim == 2:
        return kept * len(x)
    out = nn.functional.conv2d(x, weight, stride=stride, padding=padding)
    return kept * len(x) * out.shape[2] * out.shape[3]
