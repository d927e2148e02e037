# keeps 1.6
import torch
from torch import nn


def sensitivity(model, evaluate, sparsities):
    results = {}
    for prefix, module in model.named_modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if parameter.ndim < 2:
                continue
            full = f"{prefix}.{name}" if prefix else name
            results[full] = []
            try:
                for s in sparsities:
                    mask = magnitude_mask(parameter.detach(), s)
                    setattr(module, name, nn.Parameter(torch.where(mask, parameter.detach(), 0.0)))
                    results[full].append(evaluate(model, "validation"))
            finally:
                setattr(module, name, parameter)
    return results
