# loses 4.3 · message: "keep all"
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    channels = conv.out_channels
    if (
        not 0 < len(keep) < channels
        or any(a >= b for a, b in zip(keep, keep[1:]))
        or keep[0] < 0
        or keep[-1] >= channels
    ):
        raise ValueError("bad keep")
    conv, bn, next_conv = copy.deepcopy(conv), copy.deepcopy(bn), copy.deepcopy(next_conv)
    conv.weight = nn.Parameter(conv.weight.detach()[keep])
    if conv.bias is not None:
        conv.bias = nn.Parameter(conv.bias.detach()[keep])
    bn.weight, bn.bias = nn.Parameter(bn.weight.detach()[keep]), nn.Parameter(bn.bias.detach()[keep])
    bn.running_mean, bn.running_var = bn.running_mean[keep], bn.running_var[keep]
    next_conv.weight = nn.Parameter(next_conv.weight.detach()[:, keep])
    conv.out_channels = bn.num_features = next_conv.in_channels = len(keep)
    return conv, bn, next_conv
