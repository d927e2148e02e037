# loses 1.7 · message: "the layers lost unequal shares"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    masks = {}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        masks.update(global_masks({n: p.data for n, p in model.named_parameters()}, target))
        post_step()
        finetune(model, post_step)
    return masks
