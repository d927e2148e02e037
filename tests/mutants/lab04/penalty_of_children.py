# loses 4.5 · message: "inside"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return lam * sum(bn.weight.abs().sum() for bn in model.children() if isinstance(bn, nn.BatchNorm2d))
