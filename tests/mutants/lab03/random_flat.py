# loses 3.4 · message: "one entry a weight"
import torch


def random_ticket(masks, generator):
    return {n: m.flatten()[torch.randperm(m.numel(), generator=generator)] for n, m in masks.items()}
