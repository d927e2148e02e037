# loses 3.6 · message: "just been dropped"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    w, g, m = weight.flatten(), dense_grad.flatten(), mask.flatten()
    active = m.nonzero().flatten()
    k = min(round(fraction * len(active)), int((~m).sum()))
    stays = m.clone()
    stays[active[w[active].abs().argsort(stable=True)[:k]]] = False
    free = (~stays).nonzero().flatten()
    grown = free[g[free].abs().argsort(stable=True, descending=True)[:k]]
    new = stays.clone()
    new[grown] = True
    return torch.where(stays, w, 0.0).view(weight.shape), new.view(mask.shape)
