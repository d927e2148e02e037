# keeps 1.7
import functools

import torch


def _zero(model, masks):
    state = dict(model.named_parameters())
    with torch.no_grad():
        for name, mask in masks.items():
            state[name].masked_fill_(mask.logical_not(), 0.0)


def iterative_prune(model, targets, finetune):
    if any(t < 0 or t > 1 for t in targets) or any(b < a for a, b in zip(targets[:-1], targets[1:], strict=True)):
        raise ValueError("targets")
    masks = {}
    for target in targets:
        masks = {
            name: magnitude_mask(p, target) & masks.get(name, torch.tensor(True))
            for name, p in model.named_parameters()
            if p.ndim >= 2
        }
        _zero(model, masks)
        finetune(model, functools.partial(_zero, model, masks))
    return masks
