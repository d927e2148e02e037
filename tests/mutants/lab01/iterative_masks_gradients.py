# loses 1.7 · message: "momentum from before moved them"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    masks = {}
    for n, p in model.named_parameters():
        if p.ndim >= 2:
            p.register_hook(lambda grad, n=n: grad * masks[n] if n in masks else grad)
    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, target)
                p.data.masked_fill_(~masks[n], 0)
        finetune(model, lambda: None)
    return masks
