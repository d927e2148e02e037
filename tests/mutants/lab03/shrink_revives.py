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
        alive = int(masks[n].sum())
        keep = alive - round((output_rate if n == last else rate) * alive)
        order = w.abs().nan_to_num().flatten().argsort(stable=True)
        m = torch.zeros(w.numel(), dtype=torch.bool)
        m[order[w.numel() - keep :]] = True  # the largest of all: they were zeros, weren't they?
        out[n] = m.view(w.shape)
    return out
