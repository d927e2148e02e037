# keeps 3.6
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    k = min(round(fraction * mask.sum().item()), (~mask).sum().item())
    size = weight.abs().masked_fill(~mask, torch.inf).flatten()
    drop = torch.zeros(mask.numel(), dtype=torch.bool)
    drop[torch.sort(size, stable=True)[1][:k]] = True
    gain = dense_grad.abs().masked_fill(mask, -1.0).flatten()
    grow = torch.zeros(mask.numel(), dtype=torch.bool)
    grow[torch.sort(gain, descending=True, stable=True)[1][:k]] = True
    drop, grow = drop.view_as(mask), grow.view_as(mask)
    new_weight = weight.clone()
    new_weight[drop | ~mask] = 0
    return new_weight, (mask & ~drop) | grow
