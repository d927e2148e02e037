# loses 1.6 · message: "is another nn.Parameter now"
from torch import nn


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in list(model.named_parameters()):
        if p.ndim < 2:
            continue
        path, _, last = name.rpartition(".")
        layer = model.get_submodule(path)
        dense = p.detach().clone()
        results[name] = []
        for s in sparsities:
            setattr(layer, last, nn.Parameter(dense.masked_fill(~magnitude_mask(dense, s), 0)))
            results[name].append(evaluate(model, "validation"))
        setattr(layer, last, nn.Parameter(dense))
    return results
