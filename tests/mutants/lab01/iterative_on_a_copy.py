# loses 1.7 · message: "did your code prune a copy of it?"
import copy


def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    model = copy.deepcopy(model)
    masks = {}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, target)
        post_step()
        finetune(model, post_step)
    return masks
