# loses 1.6 · message: "is a module: the keys are names of parameters"
import torch
from torch import nn


def sensitivity(model, evaluate, sparsities):
    results = {}
    for name, layer in model.named_modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            results[name] = []
            original = layer.weight.detach().clone()
            for s in sparsities:
                with torch.no_grad():
                    layer.weight.copy_(original * magnitude_mask(original, s))
                results[name].append(evaluate(model, "validation"))
            with torch.no_grad():
                layer.weight.copy_(original)
    return results
