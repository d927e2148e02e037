# loses 1.4 · message: "'norm.scale' got a mask"
import torch


def global_masks(weights, sparsity):
    big = {name: w for name, w in weights.items() if w.ndim != 1}
    parts = magnitude_mask(torch.cat([w.flatten() for w in big.values()]), sparsity)
    parts = parts.split([w.numel() for w in big.values()])
    return {name: part.view_as(big[name]) for name, part in zip(big, parts, strict=True)}
