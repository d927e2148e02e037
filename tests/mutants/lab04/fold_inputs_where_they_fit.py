# loses 4.2 · message: "the input channels were scaled"
import copy

from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, q = bn_scale_shift(bn)
    folded = copy.deepcopy(conv)
    axis = conv.weight.shape.index(len(p)) if conv.weight.shape[1] != len(p) else 1
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(shape))
    folded.bias = nn.Parameter(q if conv.bias is None else q + p * conv.bias.detach())
    return folded
