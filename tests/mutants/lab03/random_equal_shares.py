# loses 3.4 · message: "as many"
import torch


def random_ticket(masks, generator):
    kept = sum(int(m.sum()) for m in masks.values())
    share = kept / sum(m.numel() for m in masks.values())
    out = {}
    for n, m in masks.items():
        flat = torch.zeros(m.numel(), dtype=torch.bool)
        flat[torch.randperm(m.numel(), generator=generator)[: round(share * m.numel())]] = True
        out[n] = flat.view(m.shape)
    return out
