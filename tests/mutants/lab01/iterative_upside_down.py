# loses 1.7 · message: "upside down"
def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    gone = {}

    def post_step():
        for n, p in model.named_parameters():
            if n in gone:
                p.data[gone[n]] = 0

    for target in targets:
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                gone[n] = ~magnitude_mask(p.data, target)
        post_step()
        finetune(model, post_step)
    return gone
