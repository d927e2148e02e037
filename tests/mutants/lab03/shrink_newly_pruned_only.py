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
        alive = masks[n].flatten().nonzero().flatten()
        order = w.flatten()[alive].abs().argsort(stable=True)
        new = torch.ones(w.numel(), dtype=torch.bool)
        new[alive[order[: round((output_rate if n == last else rate) * len(alive))]]] = False
        out[n] = new.view(w.shape)  # and the ones that were pruned before?
    return out
