# loses 4.5 · message: "differentiate"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return lam * sum(
        bn.weight.abs().sum().item() for bn in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    )
