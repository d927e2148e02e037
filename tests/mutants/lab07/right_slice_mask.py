# keeps 7.6
import torch
from torch import nn


def slice_heads(q, k, v, out, keep, head_dim):
    heads = q.out_features // head_dim
    alive = torch.zeros(heads, dtype=torch.bool)
    last = -1
    for h in keep:
        if not last < h < heads:
            raise ValueError(f"heads should rise from 0 to {heads - 1}: {keep}")
        alive[h], last = True, h
    alive = alive.repeat_interleave(head_dim)
    result = []
    with torch.no_grad():
        for layer in (q, k, v):
            new = nn.Linear(layer.in_features, int(alive.sum()), bias=layer.bias is not None).to(layer.weight)
            new.weight.copy_(layer.weight[alive])
            if layer.bias is not None:
                new.bias.copy_(layer.bias[alive])
            result.append(new)
        new = nn.Linear(int(alive.sum()), out.out_features, bias=out.bias is not None).to(out.weight)
        new.weight.copy_(out.weight.T[alive].T)
        if out.bias is not None:
            new.bias.copy_(out.bias)
    return [*result, new]
