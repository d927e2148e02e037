# keeps 1.7
import torch


def iterative_prune(model, targets, finetune):
    for a, b in zip([0.0] + list(targets), targets):
        if b < a or b > 1:
            raise ValueError("targets")
    masks = {}

    def hold():
        for n, p in model.named_parameters():
            if n in masks:
                p.data = torch.where(masks[n], p.data, 0.0)  # the parameter stays, its data change

    for t in targets:
        for n, p in model.named_parameters():
            if p.ndim > 1:
                masks[n] = magnitude_mask(p.data, t)
        hold()
        finetune(model, hold)
    return masks
