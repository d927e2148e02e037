# loses 4.2 · message: "changed weight of the convolution"
from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    conv.weight.data *= p.view(-1, 1, 1, 1)
    conv.bias = nn.Parameter(q if conv.bias is None else q + p * conv.bias.detach())
    return conv
