# loses 3.1 · message: "the most negative"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        alive = w[masks[n]]
        stays = torch.ones_like(alive, dtype=torch.bool)
        stays[alive.argsort(stable=True)[: round((output_rate if n == last else rate) * len(alive))]] = False
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays
    return out
