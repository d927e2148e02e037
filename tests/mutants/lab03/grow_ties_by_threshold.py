# loses 3.6 · message: "equal"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    k = min(round(fraction * int(mask.sum())), int((~mask).sum()))
    if k == 0:
        return weight * mask, mask.clone()
    stays = mask & (weight.abs() > weight[mask].abs().kthvalue(k).values)
    grown = ~mask & (dense_grad.abs() >= dense_grad[~mask].abs().sort(descending=True).values[k - 1])
    return weight * stays, stays | grown
