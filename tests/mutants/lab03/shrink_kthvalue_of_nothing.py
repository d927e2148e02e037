# loses 3.1 · message: "your code raised"
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
        threshold = size.kthvalue(k).values
        below = masks[n] & (w.abs() < threshold)
        equal = (masks[n] & (w.abs() == threshold)).flatten().nonzero().flatten()
        new = (masks[n] & ~below).flatten()
        new[equal[: k - int(below.sum())]] = False
        out[n] = new.view(w.shape)
    return out
