# loses 3.4 · message: "within"
import torch


def random_ticket(masks, generator):
    out = {}
    for n, m in masks.items():
        rows = m.reshape(len(m), -1)
        out[n] = torch.stack([row[torch.randperm(len(row), generator=generator)] for row in rows]).view(m.shape)
    return out
