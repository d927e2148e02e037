# keeps 4.5
import torch
from torch import nn


@torch.no_grad()
def select_channels(model, fraction):
    if not (fraction >= 0 and fraction <= 1):
        raise ValueError("fraction")
    norms = [(n, m.weight.abs()) for n, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)]
    flat = torch.cat([size for _, size in norms])
    count = round(fraction * flat.numel())
    result = {n: torch.ones(len(size), dtype=torch.bool) for n, size in norms}
    if count == 0:
        return result
    limit = flat.kthvalue(count).values
    left = count - int((flat < limit).sum())
    for n, size in norms:
        equal = size == limit
        early = equal & (equal.cumsum(0) <= left)
        left -= int(early.sum())
        result[n] = ~((size < limit) | early)
        largest = (size == size.max()).nonzero()[-1]
        result[n][largest] = True
    return result
