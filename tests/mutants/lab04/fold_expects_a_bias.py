# loses 4.2 · message: "What is b where there is none?"
import copy

from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    folded = copy.deepcopy(conv)
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(-1, 1, 1, 1))
    folded.bias = nn.Parameter(p * conv.bias.detach() + q)
    return folded
