# loses 3.4 · message: "as many are kept as are pruned"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        goes = torch.randperm(m.numel(), generator=generator)[: int(m.sum())]
        flat = torch.ones(m.numel(), dtype=torch.bool)
        flat[goes] = False
        out[n] = flat.view(m.shape)
    return out
