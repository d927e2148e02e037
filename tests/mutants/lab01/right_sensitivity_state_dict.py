# keeps 1.6
import copy


def sensitivity(model, evaluate, sparsities):
    dense = copy.deepcopy(model.state_dict())
    results = {n: [] for n, p in model.named_parameters() if p.ndim >= 2}
    for s in sparsities:
        for name in results:
            pruned = dict(dense)
            pruned[name] = dense[name] * magnitude_mask(dense[name], s)
            model.load_state_dict(pruned)
            results[name].append(float(evaluate(model, "validation")))
    model.load_state_dict(dense)
    return results
