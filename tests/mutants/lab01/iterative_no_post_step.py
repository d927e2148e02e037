# loses 1.7 · message: "finetune got no post_step"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    masks = {}
    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, target)
                p.data.masked_fill_(~masks[n], 0)
        finetune(model)
    return masks
