# loses 4.2 · message: "should raise a RuntimeError"
import copy

from torch import nn


def fold_bn(conv, bn):
    p, q = bn_scale_shift(bn)
    folded = copy.deepcopy(conv).eval()
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(-1, 1, 1, 1))
    folded.bias = nn.Parameter(q if conv.bias is None else q + p * conv.bias.detach())
    return folded
