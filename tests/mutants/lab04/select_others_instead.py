# loses 4.5 · message: "in the place of those that stay"
import torch
from torch import nn


def select_channels(model, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    bns = {name: m for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    sizes = {name: bn.weight.detach().abs() for name, bn in bns.items()}
    for size in sizes.values():
        size[size.argsort(stable=True)[-1]] += 1e6
    together = torch.cat(list(sizes.values()))
    gone = together.argsort(stable=True)[: round(fraction * len(together))]
    kept = torch.ones(len(together), dtype=torch.bool)
    kept[gone] = False
    keep = dict(zip(sizes, kept.split([len(s) for s in sizes.values()])))
    return keep
