# keeps 4.5
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    penalty = 0
    for m in model.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            penalty += lam * (m.weight * m.weight.detach().sign()).sum()
    return penalty
