# loses 1.3 · message: "the fraction was cut off"
import torch


def grouped_mask(weight, sparsity, granularity):
    if weight.ndim == 4:
        sizes = {"element": 0, "row": 1, "kernel": 2, "filter": 3}
    elif weight.ndim == 2:
        sizes = {"element": 0, "filter": 1}
    else:
        raise ValueError("only conv and linear weights")
    if granularity not in sizes or not 0 <= sparsity <= 1:
        raise ValueError("bad arguments")
    outer = weight.shape[: weight.ndim - sizes[granularity]]
    groups = weight.abs().double().reshape(outer.numel(), -1)
    to_prune = round(sparsity * weight.numel())  # weights
    keep = torch.ones(len(groups), dtype=torch.bool)
    for g in groups.sum(1).argsort(stable=True):
        if to_prune < groups.shape[1]:
            break
        keep[g] = False
        to_prune -= groups.shape[1]
    return keep[:, None].expand(groups.shape).reshape(weight.shape)
