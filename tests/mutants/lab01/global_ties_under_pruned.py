# loses 1.4 · message: "your code prunes too few"
import torch


def global_masks(weights, sparsity):
    if not 0 <= sparsity <= 1:
        raise ValueError("sparsity")
    big = {name: w.abs() for name, w in weights.items() if w.ndim >= 2}
    flat = torch.cat([w.flatten() for w in big.values()])
    if flat.isnan().any():
        raise ValueError("NaN")
    k = round(sparsity * len(flat))
    threshold = flat.sort().values[k] if k < len(flat) else torch.inf
    return {name: w >= threshold for name, w in big.items()}
