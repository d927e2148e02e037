# loses 3.1 · message: "to the even neighbour"
import math

import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        size = w[masks[n]].abs()
        k = math.floor((output_rate if n == last else rate) * len(size) + 0.5)
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[:k]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
