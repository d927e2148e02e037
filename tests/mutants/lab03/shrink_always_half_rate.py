# loses 3.1 · message: "output_rate"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if not 0 <= rate <= 1 or (output_rate is not None and not 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        size = w[masks[n]].abs()
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[: round((rate / 2 if n == last else rate) * len(size))]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
