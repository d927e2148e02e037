# loses 3.1 · message: "the dead competed with the survivors"
import torch


def shrink(weights, masks, rate, output_rate=None):
    output_rate = rate / 2 if output_rate is None else output_rate
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    left = {}
    for name, w in weights.items():
        share = output_rate if name == list(weights)[-1] else rate
        goes = w.abs().flatten().argsort(stable=True)[: round(share * w.numel())]
        new = masks[name].clone()
        new.view(-1)[goes] = False
        left[name] = new
    return left
