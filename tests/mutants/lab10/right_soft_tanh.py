# keeps 10.4
import torch
from torch import nn


class SoftThreshold(nn.Module):
    def __init__(self, layers, temperature):
        super().__init__()
        self.theta = torch.nn.Parameter(torch.zeros(layers))
        self.T = temperature

    def forward(self, scores, layer, token_mask):
        n = token_mask.sum(1)[:, None].to(scores.dtype)
        theta = self.theta[layer].to(scores.dtype)
        if not self.training:
            hard = (scores * n >= theta) & token_mask
            hard[:, 0] = True
            return hard.to(scores.dtype)
        gate = 0.5 + 0.5 * torch.tanh((n * scores - theta) / (2 * self.T))
        gate = gate * token_mask.to(scores.dtype)
        first = torch.zeros_like(gate)
        first[:, 0] = 1
        return gate * (1 - first) + first
