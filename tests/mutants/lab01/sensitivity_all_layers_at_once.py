# loses 1.6 · message: "each layer starts from the dense model"
import copy

import torch


def sensitivity(model, evaluate, sparsities):
    names = [name for name, p in model.named_parameters() if p.ndim >= 2]
    results = {name: [] for name in names}
    for s in sparsities:
        pruned = copy.deepcopy(model)
        for name, p in pruned.named_parameters():
            if name in names:
                with torch.no_grad():
                    p.mul_(magnitude_mask(p, s))
                results[name].append(evaluate(pruned, "validation"))
    return results
