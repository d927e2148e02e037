# keeps 4.4
import copy

import torch


@torch.no_grad()
def absorb_removed(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    gone = [i for i in range(channels) if i not in keep]
    bn, layer = copy.deepcopy(bn), copy.deepcopy(next_conv)
    bn.eval()
    bn.weight.zero_()
    maps = bn(torch.randn(1, channels, 33, 33)).clamp(min=0)
    maps[:, keep] = 0
    out = layer(maps) - layer(torch.zeros_like(maps))  # so the bias does not count
    return out[0, :, out.shape[2] // 2, out.shape[3] // 2]
