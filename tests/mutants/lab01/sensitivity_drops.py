# loses 1.6 · message: "return the values as they came"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    baseline = evaluate(model, "validation")
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.copy_(original * magnitude_mask(original, s))
                results[name].append(baseline - evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
