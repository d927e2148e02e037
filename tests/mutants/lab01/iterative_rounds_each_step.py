# loses 1.7 · message: "Rounded step by step?"
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

    for before, target in zip([0, *targets], targets):
        for n, p in model.named_parameters():
            if n in masks:
                k = round((target - before) * p.numel())
                score = p.detach().abs().masked_fill(~masks[n], torch.inf).flatten()
                mask = masks[n].flatten().clone()
                mask[score.argsort(stable=True)[:k]] = False
                masks[n] = mask.view_as(p)
        post_step()
        finetune(model, post_step)
    return masks
