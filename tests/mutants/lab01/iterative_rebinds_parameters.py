# loses 1.7 · message: "one that nobody trains"
import torch
from torch import nn


def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    masks = {}

    def apply():
        for n in masks:
            path, _, last = n.rpartition(".")
            layer = model.get_submodule(path)
            setattr(layer, last, nn.Parameter(torch.where(masks[n], getattr(layer, last).detach(), 0.0)))

    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.detach(), target)
        apply()
        finetune(model, apply)
    return masks
