# loses 1.4 · message: "a mask has one entry a weight"
import torch


def global_masks(weights, sparsity):
    big = {name: w for name, w in weights.items() if w.ndim >= 2}
    mask = magnitude_mask(torch.cat([w.flatten() for w in big.values()]), sparsity)
    return dict(zip(big, mask.split([w.numel() for w in big.values()]), strict=True))
