# loses 4.2 · message: "stride"
from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    folded = nn.Conv2d(
        conv.in_channels, conv.out_channels, conv.kernel_size, groups=conv.groups, dilation=conv.dilation
    )
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(-1, 1, 1, 1))
    folded.bias = nn.Parameter(q if conv.bias is None else q + p * conv.bias.detach())
    return folded.eval()
