# loses 4.2 · message: "has no bias"
import torch
from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    folded = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        bias=conv.bias is not None,
        padding_mode=conv.padding_mode,
        dtype=conv.weight.dtype,
    )
    with torch.no_grad():
        folded.weight.copy_(conv.weight * p.view(-1, 1, 1, 1))
        if conv.bias is not None:
            folded.bias.copy_(conv.bias * p + q)
    return folded.eval()
