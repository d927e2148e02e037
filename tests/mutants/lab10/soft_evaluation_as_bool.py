# loses 10.4 · message: "dtype"
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
        if not self.training:
            gate = gate & token_mask
            gate[:, 0] = True
            return gate
        gate = gate.to(scores.dtype) * token_mask
        return torch.cat([torch.ones_like(gate[:, :1]), gate[:, 1:]], dim=1)
