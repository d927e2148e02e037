# keeps 4.5
import torch


def slimming_penalty(model, lam):
    if lam < 0:
        raise ValueError(f"{lam} < 0")
    total = torch.zeros(1)
    for _, module in model.named_modules():
        if module.__class__.__name__.startswith("BatchNorm"):
            for alpha in module.weight:
                total = total + (alpha if alpha > 0 else -alpha)
    return lam * total
