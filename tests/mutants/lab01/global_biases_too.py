# loses 1.4 · message: "got a mask, though it has one dimension only"
import torch


def global_masks(weights, sparsity):
    flat = torch.cat([w.flatten() for w in weights.values()])
    parts = magnitude_mask(flat, sparsity).split([w.numel() for w in weights.values()])
    return {name: part.view_as(w) for (name, w), part in zip(weights.items(), parts, strict=True)}
