# loses 4.5 · message: "all parameters"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return lam * sum(p.abs().sum() for p in model.parameters())
