# keeps 1.4
import torch


def global_masks(weights, sparsity):
    sizes = {name: w.abs() for name, w in weights.items() if len(w.shape) >= 2}
    everything = torch.cat([size.reshape(-1) for size in sizes.values()])
    if not 0 <= sparsity <= 1 or everything.isnan().any():
        raise ValueError("bad sparsity or NaN")
    k = round(sparsity * len(everything))
    if k == 0:
        return {name: torch.ones_like(size, dtype=torch.bool) for name, size in sizes.items()}
    threshold = everything.kthvalue(k).values
    left = k - int((everything < threshold).sum())  # of those equal to the threshold so many go, the first ones
    masks = {}
    for name, size in sizes.items():
        mask = size > threshold
        equal = (size == threshold).flatten()
        late = equal & (equal.cumsum(0) > left)
        masks[name] = mask | late.view_as(mask)
        left = max(0, left - int(equal.sum()))
    return masks
