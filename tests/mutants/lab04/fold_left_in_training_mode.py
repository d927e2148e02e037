# loses 4.2 · message: "a new module begins in training mode"
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
        padding_mode=conv.padding_mode,
        dtype=conv.weight.dtype,
    )
    folded.weight.data = conv.weight.data * p.view(-1, 1, 1, 1)
    folded.bias.data = q if conv.bias is None else q + p * conv.bias.data
    return folded
