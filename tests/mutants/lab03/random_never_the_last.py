# loses 3.4 · message: "never chosen"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        kept = int(m.sum())
        flat = torch.zeros(m.numel(), dtype=torch.bool)
        flat[torch.randperm(max(kept, m.numel() - 1), generator=generator)[:kept]] = True
        out[n] = flat.view(m.shape)
    return out
