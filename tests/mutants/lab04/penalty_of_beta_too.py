# loses 4.5 · message: "β"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return lam * sum(
        bn.weight.abs().sum() + bn.bias.abs().sum()
        for bn in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    )
