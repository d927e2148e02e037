# loses 3.4 · message: "generator"
import torch


def random_ticket(masks, generator):
    return {n: m.flatten()[torch.randperm(m.numel())].view(m.shape) for n, m in masks.items()}
