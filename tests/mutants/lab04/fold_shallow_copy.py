# loses 4.2 · message: "changed weight of the convolution"
import copy

from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    folded = copy.copy(conv)
    bias = q if conv.bias is None else q + p * conv.bias.detach()
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(-1, 1, 1, 1))
    folded.bias = nn.Parameter(bias)
    return folded
