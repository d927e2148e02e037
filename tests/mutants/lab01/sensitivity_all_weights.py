# loses 1.6 · message: "only parameters with two or more dimensions"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if name.endswith("weight"):
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.copy_(original * magnitude_mask(original, s))
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
