# loses 3.6 · message: "should raise a ValueError"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    w, g, m = weight.flatten(), dense_grad.flatten(), mask.flatten()
    active, inactive = m.nonzero().flatten(), (~m).nonzero().flatten()
    k = max(0, min(round(fraction * len(active)), len(inactive)))
    new = m.clone()
    new[active[w[active].abs().argsort(stable=True)[:k]]] = False
    new[inactive[g[inactive].abs().argsort(stable=True, descending=True)[:k]]] = True
    return torch.where(new & m, w, 0.0).view(weight.shape), new.view(mask.shape)
