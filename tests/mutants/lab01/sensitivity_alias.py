# loses 1.6 · message: "another name for them"
import torch


def sensitivity(model, evaluate, sparsities):
    results = {}
    dense = model.state_dict()
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            results[name] = []
            for s in sparsities:
                with torch.no_grad():
                    p.mul_(magnitude_mask(p, s))
                results[name].append(evaluate(model, "validation"))
                model.load_state_dict(dense)
    return results
