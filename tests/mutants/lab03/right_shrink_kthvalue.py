# keeps 3.1
import torch


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = 0.5 * rate
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("between 0 and 1")
    new = {name: mask.clone() for name, mask in masks.items()}
    for i, name in enumerate(weights):
        r = output_rate if i + 1 == len(weights) else rate
        size = weights[name].abs()
        k = round(r * int(masks[name].sum()))
        if k == 0:
            continue
        threshold = size[masks[name]].kthvalue(k).values
        new[name] &= ~(size < threshold)
        left = k - int((masks[name] & (size < threshold)).sum())
        ties = (masks[name] & (size == threshold)).nonzero()[:left]
        new[name][tuple(ties.T)] = False
    return new
