# keeps 1.7
def iterative_prune(model, targets, finetune):
    if list(targets) != sorted(targets) or any(not 0 <= t <= 1 for t in targets):
        raise ValueError("targets must rise within [0, 1]")
    weights = {n: p for n, p in model.named_parameters() if p.dim() >= 2}
    masks = {}

    def zero():
        for n in masks:
            weights[n].data[~masks[n]] = 0

    for t in targets:
        for n, w in weights.items():
            masks[n] = magnitude_mask(w.data, t)
        zero()
        finetune(model, zero)
    return masks
