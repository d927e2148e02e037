# loses 3.1 · message: "should raise a ValueError"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        size = w[masks[n]].abs()
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[: round((output_rate if n == last else rate) * len(size))]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
