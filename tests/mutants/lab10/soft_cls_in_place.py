# loses 10.4 · message: "in place"
import torch
from torch import nn


class SoftThreshold(nn.Module):
    def __init__(self, layers, temperature):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature

    def forward(self, scores, layer, token_mask):
        n = token_mask.sum(1, keepdim=True)
        above = n * scores - self.theta[layer]
        gate = torch.sigmoid(above / self.temperature) if self.training else (above >= 0)
        gate = gate.to(scores.dtype)
        gate[:, 0] = 1
        return gate * token_mask
