# keeps 1.6
import copy

import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name in [n for n, p in model.named_parameters() if p.dim() > 1]:
        curve = []
        for s in sparsities:
            pruned = copy.deepcopy(model)
            weight = dict(pruned.named_parameters())[name]
            weight.data[~magnitude_mask(weight.data, s)] = 0
            curve.append(evaluate(pruned, "validation"))
        results[name] = curve
    return results
