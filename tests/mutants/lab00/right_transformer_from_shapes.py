# keeps 0.2
import math

import torch


def transformer_macs(B, L, E, heads=1):
    if min(B, L, E, heads) < 1 or E % heads:
        raise ValueError("sizes are at least 1, and heads divide E")
    with torch.device("meta"):
        x, square = torch.empty(B, L, E), torch.empty(E, E)
        q = torch.empty(B, heads, L, E // heads)
        up, down = torch.empty(E, 4 * E), torch.empty(4 * E, E)

    def cost(a, b):
        return math.prod((a @ b).shape) * a.shape[-1]

    scores = q @ q.transpose(-1, -2)
    parts = {
        "projections": 4 * cost(x, square),
        "attention": cost(q, q.transpose(-1, -2)) + cost(scores, q),
        "ffn": cost(x, up) + cost(x @ up, down),
    }
    return parts | {"total": sum(parts.values()), "scores": scores.numel()}
