# loses 3.1 · message: "of those that stayed"
import torch

_start = {}


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        size = w[masks[n]].abs()
        r = output_rate if n == last else rate
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[: round(r / (1 - r) * len(size)) if r < 1 else len(size)]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
