# loses 1.7 · message: "is not what was pruned in the model at the last target"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    history = []

    def post_step():
        for n, p in model.named_parameters():
            if n in history[-1]:
                p.data.masked_fill_(~history[-1][n], 0)

    for target in targets:
        history.append({n: magnitude_mask(p.data, target) for n, p in model.named_parameters() if p.ndim >= 2})
        post_step()
        finetune(model, post_step)
    return history[0]
