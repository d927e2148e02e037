# loses 3.4 · message: "changed"
import torch


def random_ticket(masks, generator):
    for m in masks.values():
        m.copy_(m.flatten()[torch.randperm(m.numel(), generator=generator)].view(m.shape))
    return masks
