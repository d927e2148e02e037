# keeps 1.3
import torch


def grouped_mask(weight, sparsity, granularity):
    if weight.ndim not in (2, 4):
        raise ValueError("weight")
    if granularity == "element":
        return magnitude_mask(weight, sparsity)
    if granularity == "filter":
        dim = tuple(range(1, weight.ndim))
    elif granularity == "kernel" and weight.ndim == 4:
        dim = (-2, -1)
    elif granularity == "row" and weight.ndim == 4:
        dim = (-1,)
    else:
        raise ValueError(granularity)
    norm = torch.linalg.vector_norm(weight, ord=1, dim=dim, keepdim=True, dtype=torch.float64)
    return torch.zeros_like(weight, dtype=torch.bool) | magnitude_mask(norm, sparsity)
