# keeps 1.2
import torch


def threshold_mask(weight, a):
    if a < 0:
        raise ValueError(a)
    mask = torch.empty(weight.shape, dtype=torch.bool)
    for i, w in enumerate(weight.flatten().tolist()):
        mask.view(-1)[i] = abs(w) >= a
    return mask
