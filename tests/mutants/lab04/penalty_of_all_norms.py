# loses 4.5 · message: "GroupNorm"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return lam * sum(p.abs().sum() for n, p in model.named_parameters() if n.endswith("weight") and p.ndim == 1)
