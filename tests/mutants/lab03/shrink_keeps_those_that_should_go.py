# loses 3.1 · message: "exactly those that should go were kept"
import torch


def shrink(weights, masks, rate, output_rate=None):
    output_rate = rate / 2 if output_rate is None else output_rate
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    left = {}
    for name, w in weights.items():
        size = w[masks[name]].abs()
        goes = round((output_rate if name == list(weights)[-1] else rate) * len(size))
        stays = torch.zeros_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[:goes]] = True
        left[name] = masks[name].clone()
        left[name][masks[name]] = stays
    return left
