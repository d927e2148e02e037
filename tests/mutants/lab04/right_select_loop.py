# keeps 4.5
import torch
from torch import nn


def select_channels(model, fraction):
    if fraction < 0 or fraction > 1:
        raise ValueError("fraction")
    channels, keep, left = [], {}, {}
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            keep[name] = torch.ones(module.num_features, dtype=torch.bool)
            left[name] = module.num_features
            for i, alpha in enumerate(module.weight.tolist()):
                channels.append((abs(alpha), len(channels), name, i))
    channels.sort()
    for _, _, name, i in channels[: round(fraction * len(channels))]:
        if left[name] > 1:
            keep[name][i] = False
            left[name] -= 1
    return keep
