# keeps 4.6
import torch
from torch.nn import functional as F


def cascade(keep, next_weight, constant=None):
    channels, *kernel = next_weight.shape[1:]
    if constant is None:
        constant = torch.zeros(channels)
    if keep.dtype != torch.bool or keep.numel() != channels or keep.ndim != 1 or constant.shape != keep.shape:
        raise ValueError("one entry for each channel")
    maps = constant.double().masked_fill(keep, 0)[:, None, None].expand(channels, *kernel)
    shift = F.conv2d(maps[None], next_weight.double()).flatten().to(next_weight.dtype)
    return keep[None, :, None, None].expand(next_weight.shape), shift
