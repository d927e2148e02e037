# loses 4.5 · message: "weights of"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return lam * sum(p.abs().sum() for name, p in model.named_parameters() if name.endswith("weight"))
