# loses 3.6 · message: "of all positions"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    w, g, m = weight.flatten(), dense_grad.flatten(), mask.flatten()
    active, inactive = m.nonzero().flatten(), (~m).nonzero().flatten()
    k = min(round(fraction * len(m)), len(inactive))
    new = m.clone()
    new[active[w[active].abs().argsort(stable=True)[:k]]] = False
    new[inactive[g[inactive].abs().argsort(stable=True, descending=True)[:k]]] = True
    return torch.where(new & m, w, 0.0).view(weight.shape), new.view(mask.shape)
