# loses 3.1 · message: "lacks the key"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    out = {}
    for n, w in list(weights.items())[:-1]:
        size = w[masks[n]].abs()
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[: round(rate * len(size))]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
