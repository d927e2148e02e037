# loses 4.3 · message: "asks you to write this yourself"
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    import torch.nn.utils.prune as prune

    if len(keep) == 0 or any(a >= b for a, b in zip(keep, keep[1:])) or keep[0] < 0 or keep[-1] >= conv.out_channels:
        raise ValueError("bad keep")
    conv, bn, next_conv = copy.deepcopy(conv), copy.deepcopy(bn), copy.deepcopy(next_conv)
    mask = torch.zeros_like(conv.weight)
    mask[keep] = 1
    prune.custom_from_mask(conv, "weight", mask)
    prune.remove(conv, "weight")
    conv.weight = nn.Parameter(conv.weight.detach()[keep])
    if conv.bias is not None:
        conv.bias = nn.Parameter(conv.bias.detach()[keep])
    bn.weight, bn.bias = nn.Parameter(bn.weight.detach()[keep]), nn.Parameter(bn.bias.detach()[keep])
    bn.running_mean, bn.running_var = bn.running_mean[keep], bn.running_var[keep]
    next_conv.weight = nn.Parameter(next_conv.weight.detach()[:, keep])
    conv.out_channels = bn.num_features = next_conv.in_channels = len(keep)
    return conv, bn, next_conv
