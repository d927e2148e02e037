# loses 4.5 · message: "name of the module"
import torch
from torch import nn


def select_channels(model, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    bns = {name: m for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    sizes = {name: bn.weight.detach().abs() for name, bn in bns.items()}
    together = torch.cat(list(sizes.values()))
    gone = together.argsort(stable=True)[: round(fraction * len(together))]
    kept = torch.ones(len(together), dtype=torch.bool)
    kept[gone] = False
    keep = dict(zip(sizes, kept.split([len(s) for s in sizes.values()])))
    for name, size in sizes.items():
        keep[name][size.argsort(stable=True)[-1]] = True
    return {f"{name}.weight": mask for name, mask in keep.items()}
