# loses 1.6 · message: "its names are not promised"
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
                results[name].append(evaluate(model=model, split="validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
