# loses 4.3 · message: "share"
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:]))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    small, small_bn, small_next = copy.deepcopy(conv), copy.deepcopy(bn), copy.deepcopy(next_conv)
    small.weight = nn.Parameter(conv.weight.detach()[keep])
    if conv.bias is not None:
        small.bias = nn.Parameter(conv.bias.detach()[keep])
    small_bn.weight, small_bn.bias = nn.Parameter(bn.weight.detach()[keep]), nn.Parameter(bn.bias.detach()[keep])
    small_bn.running_mean, small_bn.running_var = bn.running_mean[keep], bn.running_var[keep]
    small_next.weight = nn.Parameter(next_conv.weight.detach()[:, keep])
    small_next.bias = next_conv.bias
    small.out_channels = small_bn.num_features = small_next.in_channels = len(keep)
    return small, small_bn, small_next
