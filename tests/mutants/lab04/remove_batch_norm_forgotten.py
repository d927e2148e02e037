# loses 4.3 · message: "entries: "
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:]))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    conv, bn, next_conv = copy.deepcopy(conv), copy.deepcopy(bn), copy.deepcopy(next_conv)
    conv.weight = nn.Parameter(conv.weight.detach()[keep])
    if conv.bias is not None:
        conv.bias = nn.Parameter(conv.bias.detach()[keep])
    next_conv.weight = nn.Parameter(next_conv.weight.detach()[:, keep])
    conv.out_channels = next_conv.in_channels = len(keep)
    return conv, bn, next_conv
