# loses 4.5 · message: "mean"
import torch
from torch import nn


def slimming_penalty(model, lam):
    if not lam >= 0:
        raise ValueError("lam")
    return (
        lam
        * torch.cat([bn.weight for bn in [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]]).abs().mean()
    )
