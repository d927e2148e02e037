# loses 3.1 · message: "half of"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        size = w[masks[n]].abs()
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[: round((output_rate if n == last else rate) * len(size))]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
