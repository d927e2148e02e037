# loses 4.2 · message: "q is missing"
import copy

import torch
from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p, _ = bn_scale_shift(bn)
    folded = copy.deepcopy(conv)
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(-1, 1, 1, 1))
    folded.bias = nn.Parameter(torch.zeros_like(p) if conv.bias is None else p * conv.bias.detach())
    return folded
