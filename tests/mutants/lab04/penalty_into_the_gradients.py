# loses 4.5 · message: "return"
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    for bn in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]:
        bn.weight.grad = lam * bn.weight.detach().sign()
