# loses 1.7 · message: "your code raised ValueError: targets must rise"
import torch


def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before < target <= 1:
            raise ValueError("targets must rise")
    masks = {n: torch.ones_like(p, dtype=torch.bool) for n, p in model.named_parameters() if p.ndim >= 2}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        for n, p in model.named_parameters():
            if n in masks:
                score = p.detach().abs().masked_fill(~masks[n], -1.0)
                mask = torch.ones(p.numel(), dtype=torch.bool)
                mask[score.flatten().argsort(stable=True)[: round(target * p.numel())]] = False
                masks[n] = mask.view_as(p)
        post_step()
        finetune(model, post_step)
    return masks
