# loses 1.4 · message: "the layers were scaled before they were compared"
import torch


def global_masks(weights, sparsity):
    big = {name: w for name, w in weights.items() if w.ndim >= 2}
    flat = torch.cat([(w / w.abs().max()).flatten() for w in big.values()])  # so that no layer dies
    parts = magnitude_mask(flat, sparsity).split([w.numel() for w in big.values()])
    return {name: part.view_as(big[name]) for name, part in zip(big, parts, strict=True)}
