# keeps 3.4
import torch


def random_ticket(masks, generator):
    out = {}
    for name, mask in masks.items():
        score = torch.rand(mask.numel(), generator=generator, dtype=torch.float64)
        flat = torch.zeros(mask.numel(), dtype=torch.bool)
        flat[score.argsort()[: int(mask.sum())]] = True
        out[name] = flat.reshape(mask.shape)
    return out
