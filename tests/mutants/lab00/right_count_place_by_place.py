# keeps 0.3
import torch
from torch.nn import functional as F


def nonzero_macs(weight, x, stride=1, padding=0):
    if weight.ndim != x.ndim or weight.ndim not in (2, 4) or weight.shape[1] != x.shape[1]:
        raise ValueError("the shapes do not belong together")
    w = weight != 0
    if w.ndim == 2:
        return sum(int((w & (row != 0)).sum()) for row in x)
    there = F.pad(x, (padding,) * 4) != 0
    R, S = w.shape[2:]
    count = 0
    for i in range(0, there.shape[2] - R + 1, stride):
        for j in range(0, there.shape[3] - S + 1, stride):
            patch = there[:, None, :, i : i + R, j : j + S]  # (B, 1, C, R, S)
            count += int(torch.logical_and(patch, w).sum())
    return count
