# loses 4.5 · message: "each layer lost its own share"
import torch
from torch import nn


def select_channels(model, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    bns = {name: m for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    sizes = {name: bn.weight.detach().abs() for name, bn in bns.items()}
    keep = {}
    for name, size in sizes.items():
        keep[name] = torch.ones(len(size), dtype=torch.bool)
        keep[name][size.argsort(stable=True)[: round(fraction * len(size))]] = False
    for name, size in sizes.items():
        keep[name][size.argsort(stable=True)[-1]] = True
    return keep
