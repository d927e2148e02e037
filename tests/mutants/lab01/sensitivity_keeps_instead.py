# loses 1.6 · message: "the weights were zero that the mask keeps"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.copy_(original.masked_fill(magnitude_mask(original, s), 0))
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
