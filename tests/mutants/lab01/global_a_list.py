# loses 1.4 · message: "the masks should be a dict"
import torch


def global_masks(weights, sparsity):
    big = [w for w in weights.values() if w.ndim >= 2]
    parts = magnitude_mask(torch.cat([w.flatten() for w in big]), sparsity).split([w.numel() for w in big])
    return [part.view_as(w) for part, w in zip(parts, big, strict=True)]
