# loses 1.7 · message: "all that is pruned by now"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    post_step = None
    for target in targets:
        masks = {n: magnitude_mask(p.data, target) for n, p in model.named_parameters() if p.ndim >= 2}
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)
        if post_step is None:

            def post_step(masks=masks):
                for n, p in model.named_parameters():
                    if n in masks:
                        p.data.masked_fill_(~masks[n], 0)

        finetune(model, post_step)
    return masks
