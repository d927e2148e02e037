# loses 3.1 · message: "may hold any value"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        alive = int(masks[n].sum())
        goes = w.numel() - alive + round((output_rate if n == last else rate) * alive)
        size = (w * masks[n]).abs() - (~masks[n]).to(w.dtype)  # the dead below all others, but NaN · 0 is NaN
        m = torch.ones(w.numel(), dtype=torch.bool)
        m[size.flatten().argsort(stable=True)[:goes]] = False
        out[n] = m.view(w.shape)
    return out
