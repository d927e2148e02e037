# keeps 0.3
import torch
from torch.nn import functional as F


def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.shape[1:2] != x.shape[1:2] or weight.ndim != x.ndim:
        raise ValueError("the shapes do not belong together")
    a, b = weight.bool().to(torch.float64), x.bool().to(torch.float64)
    out = F.linear(b, a) if a.ndim == 2 else F.conv2d(b, a, stride=stride, padding=padding)
    return round(out.sum().item())
