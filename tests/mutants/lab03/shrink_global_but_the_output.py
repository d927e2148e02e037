# loses 3.1 · message: "rank the survivors of each layer"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    *hidden, last = weights
    out = {}
    for names, r in ((hidden, rate), ([last], output_rate)):
        if not names:
            continue
        size = torch.cat([weights[n][masks[n]].abs().double() for n in names])
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[: round(r * len(size))]] = False
        at = 0
        for n in names:
            k = int(masks[n].sum())
            out[n] = masks[n].clone()
            out[n][masks[n]] = stays[at : at + k]
            at += k
    return out
