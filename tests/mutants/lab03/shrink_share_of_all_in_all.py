# loses 3.1 · message: "are alive again"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        k = round((output_rate if n == last else rate) * w.numel())
        m = torch.ones(w.numel(), dtype=torch.bool)
        m[w.abs().flatten().argsort(stable=True)[:k]] = False
        out[n] = m.view(w.shape)
    return out
