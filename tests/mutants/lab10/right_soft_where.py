# keeps 10.4
import torch
from torch import nn


class SoftThreshold(nn.Module):
    def __init__(self, layers, temperature):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature

    def forward(self, scores, layer, token_mask):
        n = token_mask.sum(dim=1, keepdim=True)
        distance = n * scores - self.theta[layer]
        if self.training:
            gate = (distance / self.temperature).sigmoid()
        else:
            gate = (distance >= 0).to(distance.dtype)
        gate = torch.where(token_mask, gate, 0.0)
        gate = torch.where(torch.arange(scores.shape[1]) == 0, 1.0, gate)
        return gate.to(scores.dtype)
