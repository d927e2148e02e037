# loses 4.5 · message: "GroupNorm"
import torch
from torch import nn


def select_channels(model, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    bns = {
        name: m for name, m in model.named_modules() if getattr(m, "weight", None) is not None and m.weight.ndim == 1
    }
    sizes = {name: bn.weight.detach().abs() for name, bn in bns.items()}
    together = torch.cat(list(sizes.values()))
    gone = together.argsort(stable=True)[: round(fraction * len(together))]
    kept = torch.ones(len(together), dtype=torch.bool)
    kept[gone] = False
    keep = dict(zip(sizes, kept.split([len(s) for s in sizes.values()])))
    for name, size in sizes.items():
        keep[name][size.argsort(stable=True)[-1]] = True
    return keep
