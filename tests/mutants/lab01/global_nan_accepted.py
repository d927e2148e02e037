# loses 1.4 · message: "a NaN among the weights"
import torch


def global_masks(weights, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity")
    big = {name: w for name, w in weights.items() if w.ndim >= 2}
    flat = torch.cat([w.abs().flatten() for w in big.values()])
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = False
    parts = mask.split([w.numel() for w in big.values()])
    return {name: part.view_as(big[name]) for name, part in zip(big, parts, strict=True)}
