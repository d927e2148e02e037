# loses 3.6 · message: "row"
import torch


def drop_and_grow(weight, dense_grad, mask, fraction):
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    rows = []
    for w, g, m in zip(weight, dense_grad, mask):
        w, g, m = w.flatten(), g.flatten(), m.flatten()
        active, inactive = m.nonzero().flatten(), (~m).nonzero().flatten()
        k = min(round(fraction * len(active)), len(inactive))
        new = m.clone()
        new[active[w[active].abs().argsort(stable=True)[:k]]] = False
        new[inactive[g[inactive].abs().argsort(stable=True, descending=True)[:k]]] = True
        rows.append((torch.where(new & m, w, 0.0), new))
    return torch.stack([r[0] for r in rows]).view(weight.shape), torch.stack([r[1] for r in rows]).view(mask.shape)
