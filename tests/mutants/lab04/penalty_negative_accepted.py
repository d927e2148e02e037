# loses 4.5 · message: "should raise a ValueError"
from torch import nn


def slimming_penalty(model, lam):
    return lam * sum(m.weight.abs().sum() for m in model.modules() if isinstance(m, nn.BatchNorm2d))
