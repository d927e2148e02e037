# loses 1.6 · message: "each layer starts from the dense model"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.copy_(original * magnitude_mask(original, s))
                results[name].append(evaluate(model, "validation"))
    return results
