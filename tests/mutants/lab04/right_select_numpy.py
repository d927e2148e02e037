# keeps 4.5
import numpy as np
import torch
from torch import nn


def select_channels(model, fraction):
    assert_ok = 0.0 <= fraction <= 1.0
    if not assert_ok:
        raise ValueError("no fraction")
    names = [n for n, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)]
    alphas = [np.abs(model.get_submodule(n).weight.detach().numpy()) for n in names]
    layer = np.repeat(np.arange(len(names)), [len(a) for a in alphas])
    flat = np.concatenate(alphas)
    rank = np.empty(len(flat), dtype=int)
    rank[np.argsort(flat, kind="stable")] = np.arange(len(flat))
    kept = rank >= round(fraction * len(flat))
    for i in range(len(names)):
        members = np.flatnonzero(layer == i)
        kept[members[rank[members].argmax()]] = True
    return {n: torch.from_numpy(kept[layer == i].copy()) for i, n in enumerate(names)}
