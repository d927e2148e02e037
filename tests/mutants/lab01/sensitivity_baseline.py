# loses 1.6 · message: "once for each is enough"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    baseline = evaluate(model, "validation")
    assert baseline > 0, "is the model trained?"
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            original = p.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    p.copy_(original * magnitude_mask(original, s))
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                p.copy_(original)
    return results
