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
                size = [abs(v) for v in p.flatten().tolist()]
                alive = masks[n].flatten().tolist() if n in masks else [True] * len(size)
                order = sorted(range(len(size)), key=lambda i: (alive[i], size[i], i))
                mask = torch.ones(len(size), dtype=torch.bool)
                mask[order[: round(t * len(size))]] = False
                masks[n] = mask.view(p.shape)
        hold()
        finetune(model, hold)
    return masks
