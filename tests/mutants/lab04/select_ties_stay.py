# loses 4.5 · message: "equal your threshold, and stay"
import torch
from torch import nn


def select_channels(model, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    bns = {name: m for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    sizes = {name: bn.weight.detach().abs() for name, bn in bns.items()}
    together = torch.cat(list(sizes.values()))
    count = round(fraction * len(together))
    threshold = together.sort().values[count - 1] if count else -1
    keep = {name: size >= threshold for name, size in sizes.items()}
    for name, size in sizes.items():
        keep[name][size.argsort(stable=True)[-1]] = True
    return keep
