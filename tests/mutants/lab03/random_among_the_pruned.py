# loses 3.4 · message: "every position"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        kept = int(m.sum())
        free = (~m).flatten().nonzero().flatten()
        order = free[torch.randperm(len(free), generator=generator)]
        rest = m.flatten().nonzero().flatten()
        flat = torch.zeros(m.numel(), dtype=torch.bool)
        flat[torch.cat([order, rest])[:kept]] = True
        out[n] = flat.view(m.shape)
    return out
