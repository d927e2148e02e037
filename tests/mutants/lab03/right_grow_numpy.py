# keeps 3.6
import numpy as np
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if fraction < 0 or fraction > 1:
        raise ValueError(f"fraction {fraction}")
    w, g, m = weight.detach().numpy(), dense_grad.detach().numpy(), mask.numpy()
    active, free = np.flatnonzero(m), np.flatnonzero(~m)
    k = min(round(fraction * active.size), free.size)
    drop = active[np.argsort(np.abs(w.reshape(-1)[active]), kind="stable")[:k]]
    grow = free[np.argsort(-np.abs(g.reshape(-1)[free]), kind="stable")[:k]]
    after = m.copy().reshape(-1)
    after[drop] = False
    after[grow] = True
    value = w.copy().reshape(-1)
    value[grow] = 0
    value[~after] = 0
    return torch.from_numpy(value.reshape(m.shape)), torch.from_numpy(after.reshape(m.shape))
