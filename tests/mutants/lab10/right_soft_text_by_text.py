# keeps 10.4
import torch
from torch import nn


class SoftThreshold(nn.Module):
    def __init__(self, layers, temperature):
        super().__init__()
        self.register_parameter("theta", nn.Parameter(torch.zeros(layers)))
        self.register_buffer("T", torch.tensor(float(temperature)))

    def forward(self, scores, layer, token_mask):
        rows = []
        for s, real in zip(scores, token_mask):
            x = (real.sum() * s - self.theta[layer]) / self.T
            gate = torch.special.expit(x) if self.training else torch.heaviside(x.detach(), torch.ones_like(x))
            row = [gate.new_ones(())] + [gate[i] if real[i] else gate.new_zeros(()) for i in range(1, len(s))]
            rows.append(torch.stack(row))
        return torch.stack(rows).to(scores.dtype)
