# loses 1.4 · message: "after the call the dict that was given lacks the key"
import torch


def global_masks(weights, sparsity):
    for name in list(weights):
        if weights[name].ndim < 2:
            del weights[name]
    parts = magnitude_mask(torch.cat([w.flatten() for w in weights.values()]), sparsity)
    parts = parts.split([w.numel() for w in weights.values()])
    return {name: part.view_as(w) for (name, w), part in zip(weights.items(), parts, strict=True)}
