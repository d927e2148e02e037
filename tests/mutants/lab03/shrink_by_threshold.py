# loses 3.1 · message: "too many"
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
        k = round((output_rate if n == last else rate) * len(size))
        if k == 0:
            out[n] = masks[n].clone()
            continue
        out[n] = masks[n] & (w.abs() > size.kthvalue(k).values)
    return out
