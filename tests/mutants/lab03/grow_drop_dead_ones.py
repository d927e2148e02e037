# loses 3.6 · message: "were not active"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    w, g, m = (weight * mask).flatten(), dense_grad.flatten(), mask.flatten()
    inactive = (~m).nonzero().flatten()
    k = min(round(fraction * int(m.sum())), len(inactive))
    new = m.clone()
    new[w.abs().argsort(stable=True)[:k]] = False  # zeros, of course, are smallest
    new[inactive[g[inactive].abs().argsort(stable=True, descending=True)[:k]]] = True
    return torch.where(new & m, w, 0.0).view(weight.shape), new.view(mask.shape)
