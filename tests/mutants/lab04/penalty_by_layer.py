# loses 4.5 · message: "a number"
import torch
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return torch.stack(
        [lam * bn.weight.abs().sum() for bn in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]]
    )
