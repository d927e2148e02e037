# loses 3.6 · message: "changed"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    w, g, m = weight.flatten(), dense_grad.flatten(), mask.view(-1)
    old = m.clone()
    active, inactive = m.nonzero().flatten(), (~m).nonzero().flatten()
    k = min(round(fraction * len(active)), len(inactive))
    m[active[w[active].abs().argsort(stable=True)[:k]]] = False
    m[inactive[g[inactive].abs().argsort(stable=True, descending=True)[:k]]] = True
    return torch.where(m & old, w, 0.0).view(weight.shape), mask
