# loses 1.6 · message: "put the dense weights back"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    dense = {name: p.detach().clone() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            for s in sparsities:
                with torch.no_grad():
                    for other, q in model.named_parameters():
                        q.copy_(dense[other])
                    p.mul_(magnitude_mask(p, s))
                results[name].append(evaluate(model, "validation"))
    return results
