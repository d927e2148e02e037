# loses 3.4 · message: "as many"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        flat = torch.zeros(m.numel(), dtype=torch.bool)
        flat[torch.randint(m.numel(), (int(m.sum()),), generator=generator)] = True
        out[n] = flat.view(m.shape)
    return out
