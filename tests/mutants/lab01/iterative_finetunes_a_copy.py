# loses 1.7 · message: "one that nobody trains"
import copy


def iterative_prune(model, targets, finetune):
    for before, target in zip([0, *targets], targets):
        if not before <= target <= 1:
            raise ValueError("targets")
    work = copy.deepcopy(model)  # leave the given one alone until the end
    masks = {}

    def post_step():
        for n, p in work.named_parameters():
            if n in masks:
                p.data.masked_fill_(~masks[n], 0)

    for target in targets:
        for n, p in work.named_parameters():
            if p.ndim >= 2:
                masks[n] = magnitude_mask(p.data, target)
        post_step()
        finetune(work, post_step)
    model.load_state_dict(work.state_dict())
    return masks
