# loses 1.4 · message: "they competed, and took the places of weights"
import torch


def global_masks(weights, sparsity):
    flat = torch.cat([w.flatten() for w in weights.values()])
    parts = magnitude_mask(flat, sparsity).split([w.numel() for w in weights.values()])
    masks = {name: part.view_as(w) for (name, w), part in zip(weights.items(), parts, strict=True)}
    return {name: mask for name, mask in masks.items() if mask.ndim >= 2}
