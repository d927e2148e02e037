# loses 1.7 · message: "ranked by what they were at the start"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    start = {n: p.detach().clone() for n, p in model.named_parameters() if p.ndim >= 2}
    masks = {}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        masks.update({n: magnitude_mask(w, target) for n, w in start.items()})
        post_step()
        finetune(model, post_step)
    return masks
