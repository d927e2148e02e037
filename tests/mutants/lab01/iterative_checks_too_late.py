# loses 1.7 · message: "by then the model was pruned"
def iterative_prune(model, targets, finetune):
    masks = {}
    last = 0

    def post_step():
        for n, p in model.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        if target < last or target > 1:
            raise ValueError(f"target {target} after {last}")
        last = target
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, target)
        post_step()
        finetune(model, post_step)
    return masks
