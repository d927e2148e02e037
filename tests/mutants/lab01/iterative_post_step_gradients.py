# loses 1.7 · message: "post_step has to put the zeros back"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    masks = {}

    def post_step():
        for n, p in model.named_parameters():
            if n in masks and p.grad is not None:
                p.grad.masked_fill_(~masks[n], 0)

    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, target)
                p.data.masked_fill_(~masks[n], 0)
        finetune(model, post_step)
    return masks
