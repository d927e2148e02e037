# loses 1.3 · message: "each filter lost its own share"
import torch


def grouped_mask(weight, sparsity, granularity):
    if weight.ndim not in (2, 4):
        raise ValueError("weight")
    size = weight.abs().double()
    if granularity == "element":
        return magnitude_mask(weight, sparsity)
    if granularity == "filter":
        score = size.flatten(1).sum(1)
        keep = magnitude_mask(score, sparsity)
        return keep.view(-1, *[1] * (weight.ndim - 1)).expand_as(weight)
    if weight.ndim == 4 and granularity == "kernel":
        return torch.stack([magnitude_mask(f.sum((1, 2)), sparsity)[:, None, None].expand_as(f) for f in size])
    if weight.ndim == 4 and granularity == "row":
        return torch.stack([magnitude_mask(f.sum(2), sparsity)[:, :, None].expand_as(f) for f in size])
    raise ValueError(granularity)
