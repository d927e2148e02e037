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
        alive = int(masks[n].sum())
        goes = w.numel() - alive + round((output_rate if n == last else rate) * alive)
        size = w.abs().masked_fill(~masks[n], 0).flatten()  # the dead are the smallest
        m = torch.ones(w.numel(), dtype=torch.bool)
        m[size.argsort(stable=True)[:goes]] = False
        out[n] = m.view(w.shape)
    return out
