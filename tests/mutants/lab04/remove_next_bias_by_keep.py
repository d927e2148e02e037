# loses 4.3 · message: "next_conv's bias belongs to its own filters"
import copy

from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    if not keep or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= conv.out_channels:
        raise ValueError(f"bad keep: {keep}")
    conv, bn, next_conv = copy.deepcopy(conv), copy.deepcopy(bn), copy.deepcopy(next_conv)
    conv.weight = nn.Parameter(conv.weight.detach()[keep])
    if conv.bias is not None:
        conv.bias = nn.Parameter(conv.bias.detach()[keep])
    bn.weight, bn.bias = nn.Parameter(bn.weight.detach()[keep]), nn.Parameter(bn.bias.detach()[keep])
    bn.running_mean, bn.running_var = bn.running_mean[keep], bn.running_var[keep]
    next_conv.weight = nn.Parameter(next_conv.weight.detach()[:, keep])
    if next_conv.bias is not None:
        next_conv.bias = nn.Parameter(next_conv.bias.detach()[keep])
    conv.out_channels = bn.num_features = next_conv.in_channels = len(keep)
    return conv, bn, next_conv
