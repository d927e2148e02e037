# keeps 1.7
import functools

import torch


def _zero(model, masks):
    state = dict(model.named_parameters())
    with torch.no_grad():
        for name, mask in masks.items():
            state[name].masked_fill_(mask.logical_not(), 0.0)


def _shrink(weight, mask, target):
    alive = mask.flatten().nonzero().flatten()
    more = round(target * mask.numel()) - (mask.numel() - len(alive))
    order = weight.detach().flatten()[alive].abs().sort(stable=True).indices
    return mask.flatten().index_fill(0, alive[order[:more]], False).reshape(mask.shape)


def iterative_prune(model, targets, finetune):
    if any(t < 0 or t > 1 for t in targets) or any(b < a for a, b in zip(targets[:-1], targets[1:], strict=True)):
        raise ValueError("targets")
    masks = {name: p.detach() == p.detach() for name, p in model.named_parameters() if p.ndim >= 2}
    for target in targets:
        masks = {name: _shrink(model.get_parameter(name), mask, target) for name, mask in masks.items()}
        _zero(model, masks)
        finetune(model, functools.partial(_zero, model, masks))
    return masks
