# loses 3.4 · message: "generator"
import torch


def random_ticket(masks, generator):
    generator.manual_seed(0)
    return {n: m.flatten()[torch.randperm(m.numel(), generator=generator)].view(m.shape) for n, m in masks.items()}
