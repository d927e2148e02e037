# keeps 1.3
import torch


def grouped_mask(weight, sparsity, granularity):
    allowed = {4: ["filter", "-", "kernel", "row", "element"], 2: ["filter", "-", "element"]}
    if weight.ndim == 2:
        splits = {"filter": 1, "element": 2}
    elif weight.ndim == 4:
        splits = {"filter": 1, "kernel": 2, "row": 3, "element": 4}
    else:
        raise ValueError(f"no groups: {allowed}")
    if granularity not in splits or not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("bad arguments")
    groups = weight.reshape(*weight.shape[: splits[granularity]], -1).abs().sum(-1, dtype=torch.float64).flatten()
    gone = torch.sort(groups, stable=True).indices[: round(sparsity * len(groups))]
    keep = torch.ones(len(groups), dtype=torch.bool).index_fill(0, gone, False)
    return keep.repeat_interleave(weight.numel() // len(groups)).reshape(weight.shape)
