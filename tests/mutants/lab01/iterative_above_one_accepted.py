# loses 1.7 · message: "a target above 1"
def iterative_prune(model, targets, finetune):
    if any(a > b for a, b in zip([0, *targets], targets)):
        raise ValueError("targets")
    masks = {}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, min(target, 1))
        post_step()
        finetune(model, post_step)
    return masks
