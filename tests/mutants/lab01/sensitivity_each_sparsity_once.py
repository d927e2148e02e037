# loses 1.6 · message: "should have 4 items"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in dict.fromkeys(sparsities):
                with torch.no_grad():
                    p.copy_(original * magnitude_mask(original, s))
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
