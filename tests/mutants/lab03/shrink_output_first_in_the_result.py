# loses 3.1 · message: "same order"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    *hidden, last = weights
    out = {}
    for names, r in (([last], output_rate), (hidden, rate)):
        for n in names:
            size = weights[n][masks[n]].abs()
            stays = torch.ones_like(size, dtype=torch.bool)
            stays[size.argsort(stable=True)[: round(r * len(size))]] = False
            out[n] = masks[n].clone()
            out[n][masks[n]] = stays
    return out
