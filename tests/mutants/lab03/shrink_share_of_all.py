# loses 3.1 · message: "of all weights"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    out = {}
    for i, (n, w) in enumerate(weights.items()):
        r = output_rate if i == len(weights) - 1 else rate
        alive = masks[n].flatten().nonzero().flatten()
        k = min(round(r * w.numel()), len(alive))
        order = w.flatten()[alive].abs().argsort(stable=True)
        m = masks[n].flatten().clone()
        m[alive[order[:k]]] = False
        out[n] = m.view(w.shape)
    return out
