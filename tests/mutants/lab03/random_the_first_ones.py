# loses 3.4 · message: "random"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        flat = torch.zeros(m.numel(), dtype=torch.bool)
        flat[: int(m.sum())] = True
        out[n] = flat.view(m.shape)
    return out
