# loses 1.7 · message: "left those of the first out of its count"
import torch


def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in model.named_parameters() if p.ndim >= 2}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        for n, p in model.named_parameters():
            if n in masks:
                masks[n] = masks[n] & magnitude_mask(p.data, target)  # nothing can come back
        post_step()
        finetune(model, post_step)
    return masks
