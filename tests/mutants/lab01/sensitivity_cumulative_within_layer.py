# loses 1.6 · message: "start each from the dense weights, too"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.mul_(magnitude_mask(p, s))
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
