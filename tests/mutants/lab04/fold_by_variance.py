# loses 4.2 · message: "the weights were divided by σ² + ε"
import copy

from torch import nn


def fold_bn(conv, bn):
    if conv.training or bn.training:
        raise RuntimeError("call .eval() first")
    p = bn.weight.detach() / (bn.running_var + bn.eps)
    folded = copy.deepcopy(conv)
    b = 0 if conv.bias is None else conv.bias.detach()
    folded.weight = nn.Parameter(conv.weight.detach() * p.view(-1, 1, 1, 1))
    folded.bias = nn.Parameter((b - bn.running_mean) * p + bn.bias.detach())
    return folded
