# loses 3.4 · message: "layer by layer"
import torch


def random_ticket(masks, generator):
    flat = torch.cat([m.flatten() for m in masks.values()])
    flat = flat[torch.randperm(len(flat), generator=generator)]
    parts = flat.split([m.numel() for m in masks.values()])
    return {n: part.view(m.shape) for (n, m), part in zip(masks.items(), parts)}
