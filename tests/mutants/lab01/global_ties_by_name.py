# loses 1.4 · message: "the dict's own order counts"
import torch


def global_masks(weights, sparsity):
    names = sorted(name for name in weights if weights[name].ndim >= 2)
    flat = torch.cat([weights[name].flatten() for name in names])
    parts = magnitude_mask(flat, sparsity).split([weights[name].numel() for name in names])
    return {name: part.view_as(weights[name]) for name, part in zip(names, parts, strict=True)}
