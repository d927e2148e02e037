# keeps 4.2
import torch
from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("training mode")
    p, q = bn_scale_shift(bn)
    bias = torch.zeros_like(q) if conv.bias is None else conv.bias.data
    folded = type(conv)(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        True,
        conv.padding_mode,
    )
    weight = torch.diag(p) @ conv.weight.data.flatten(1)
    folded.weight = nn.Parameter(weight.view_as(conv.weight))
    folded.bias = nn.Parameter(torch.diag(p) @ bias + q)
    return folded.train(False)
