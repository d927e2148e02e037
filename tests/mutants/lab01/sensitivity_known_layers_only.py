# loses 1.6 · message: "was never pruned when evaluate was called"
import torch
from torch import nn


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, layer in model.named_modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            curve = results[f"{name}.weight"] = []
            original = layer.weight.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    layer.weight.copy_(original * magnitude_mask(original, s))
                curve.append(evaluate(model, "validation"))
            with torch.no_grad():
                layer.weight.copy_(original)
    return results
