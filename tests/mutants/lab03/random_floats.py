# loses 3.4 · message: "is a bool"
import torch


def random_ticket(masks, generator):
    return {
        n: m.float().flatten()[torch.randperm(m.numel(), generator=generator)].view(m.shape) for n, m in masks.items()
    }
