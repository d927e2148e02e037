# loses 3.1 · message: "a survivor that happens to be 0"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        w = torch.where(masks[n], w, torch.zeros_like(w))
        alive = w.flatten().nonzero().flatten()
        k = round((output_rate if n == last else rate) * len(alive))
        order = w.flatten()[alive].abs().argsort(stable=True)
        m = masks[n].flatten().clone()
        m[alive[order[:k]]] = False
        out[n] = m.view(w.shape)
    return out
