# keeps 4.5
import torch
from torch import nn


def slimming_penalty(model, lam):
    if lam < 0:
        raise ValueError("negative")
    alphas = [layer.weight for layer in model.modules() if type(layer) is nn.BatchNorm2d]
    return lam * torch.linalg.vector_norm(torch.cat(alphas), ord=1)
