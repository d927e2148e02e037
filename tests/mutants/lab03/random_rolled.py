# loses 3.4 · message: "shifted"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        by = int(torch.randint(m.numel(), (1,), generator=generator))
        out[n] = m.flatten().roll(by).view(m.shape)
    return out
