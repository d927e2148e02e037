# loses 10.4 · message: "nn.Module"
import torch
from torch import nn


class SoftThreshold:
    training = True

    def __init__(self, layers, temperature):
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature

    def __call__(self, scores, layer, token_mask):
        above = token_mask.sum(1, keepdim=True) * scores - self.theta[layer]
        gate = torch.sigmoid(above / self.temperature) * token_mask
        return torch.cat([torch.ones_like(gate[:, :1]), gate[:, 1:]], dim=1)
