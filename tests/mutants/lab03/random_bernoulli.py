# loses 3.4 · message: "as many"
import torch


def random_ticket(masks, generator):
    return {n: torch.rand(m.shape, generator=generator) < m.float().mean() for n, m in masks.items()}
