# loses 1.6 · message: "should be a list of 4"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = {}
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.copy_(original * magnitude_mask(original, s))
                results[name][s] = evaluate(model, "validation")
            with torch.no_grad():
                p.copy_(original)
    return results
