# loses 3.1 · message: "a quantile's doing"
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
        r = output_rate if n == last else rate
        out[n] = masks[n].clone() if r == 0 or len(size) == 0 else masks[n] & (w.abs() > torch.quantile(size, r))
    return out
