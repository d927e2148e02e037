# loses 3.1 · message: "row"
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        out[n] = masks[n].clone()
        for i in range(len(w)):
            size = w[i][masks[n][i]].abs()
            stays = torch.ones_like(size, dtype=torch.bool)
            stays[size.argsort(stable=True)[: round((output_rate if n == last else rate) * len(size))]] = False
            out[n][i][masks[n][i]] = stays
    return out
