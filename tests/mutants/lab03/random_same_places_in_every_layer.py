# loses 3.4 · message: "each layer"
import torch


def random_ticket(masks, generator):
    seed = int(torch.randint(2**31, (1,), generator=generator))
    out = {}
    for n, m in masks.items():
        order = torch.randperm(m.numel(), generator=torch.Generator().manual_seed(seed))
        out[n] = m.flatten()[order].view(m.shape)
    return out
