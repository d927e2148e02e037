# loses 3.1 · message: "rank the survivors of each layer"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    size = torch.cat([w[masks[n]].abs().double() for n, w in weights.items()])
    stays = torch.ones_like(size, dtype=torch.bool)
    stays[size.argsort(stable=True)[: round(rate * len(size))]] = False
    out, at = {}, 0
    for n in weights:
        k = int(masks[n].sum())
        out[n] = masks[n].clone()
        out[n][masks[n]] = stays[at : at + k]
        at += k
    return out
