# loses 4.3 · message: "zeros in it"
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:]))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    conv, bn, next_conv = copy.deepcopy(conv), copy.deepcopy(bn), copy.deepcopy(next_conv)
    gone = [i for i in range(channels) if i not in keep]
    with torch.no_grad():
        conv.weight[gone] = 0
        if conv.bias is not None:
            conv.bias[gone] = 0
        bn.weight[gone] = 0
        bn.bias[gone] = 0
        next_conv.weight[:, gone] = 0
    return conv, bn, next_conv
