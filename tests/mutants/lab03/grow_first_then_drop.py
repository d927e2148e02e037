# loses 3.6 · message: "just grown"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    w, g, m = weight.flatten().clone(), dense_grad.flatten(), mask.flatten()
    inactive = (~m).nonzero().flatten()
    k = min(round(fraction * int(m.sum())), len(inactive))
    grown = inactive[g[inactive].abs().argsort(stable=True, descending=True)[:k]]
    new = m.clone()
    new[grown] = True
    w[~m] = 0
    active = new.nonzero().flatten()
    new[active[w[active].abs().argsort(stable=True)[:k]]] = False
    return torch.where(new, w, 0.0).view(weight.shape), new.view(mask.shape)
