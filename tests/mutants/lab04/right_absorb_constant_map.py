# keeps 4.4
import torch
from torch.nn import functional as F


@torch.no_grad()
def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    maps = torch.zeros(1, channels, *next_conv.kernel_size)
    for i in gone:
        maps[0, i] = torch.relu(bn.bias[i])
    return F.conv2d(maps, next_conv.weight).flatten()
