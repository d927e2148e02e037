# keeps 1.7
import torch


def iterative_prune(model, targets, finetune):
    if list(targets) != sorted(targets) or any(not 0 <= t <= 1 for t in targets):
        raise ValueError("targets must rise within [0, 1]")
    weights = {n: p for n, p in model.named_parameters() if p.dim() >= 2}
    masks = {n: torch.ones(p.shape, dtype=torch.bool) for n, p in weights.items()}

    def zero():
        for n in masks:
            weights[n].data[~masks[n]] = 0

    for t in targets:
        for n, w in weights.items():
            masks[n] = magnitude_mask(torch.where(masks[n], 1 + w.data.abs().double(), 0.0), t)
        zero()
        finetune(model, zero)
    return masks
