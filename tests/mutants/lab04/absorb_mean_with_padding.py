# loses 4.4 · message: "padding"
import copy

import torch


def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    maps = torch.zeros(1, channels, 16, 16)
    maps[:, gone] = bn.bias.detach()[gone].relu().view(1, -1, 1, 1)
    layer = copy.deepcopy(next_conv)
    layer.bias = None
    return layer(maps).detach().mean((0, 2, 3))
