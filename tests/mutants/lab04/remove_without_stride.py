# loses 4.3 · message: "stride"
import copy

import torch
from torch import nn


def remove_filters(conv, bn, next_conv, keep):
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:]))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"bad keep: {keep}")
    a = nn.Conv2d(
        conv.in_channels,
        len(keep),
        conv.kernel_size,
        padding=conv.padding,
        dilation=conv.dilation,
        bias=conv.bias is not None,
    )
    b = nn.BatchNorm2d(len(keep), bn.eps, bn.momentum)
    c = nn.Conv2d(
        len(keep),
        next_conv.out_channels,
        next_conv.kernel_size,
        next_conv.stride,
        next_conv.padding,
        next_conv.dilation,
        padding_mode=next_conv.padding_mode,
        bias=next_conv.bias is not None,
    )
    with torch.no_grad():
        a.weight.copy_(conv.weight[keep])
        if conv.bias is not None:
            a.bias.copy_(conv.bias[keep])
        for name, value in bn.state_dict().items():
            b.state_dict()[name].copy_(value[keep] if value.ndim else value)
        c.weight.copy_(next_conv.weight[:, keep])
        if next_conv.bias is not None:
            c.bias.copy_(next_conv.bias)
    a.train(conv.training), b.train(bn.training), c.train(next_conv.training)
    return a, b, c
