# loses 7.6 · message: "k"
import torch
from torch import nn


def slice_heads(q, k, v, out, keep, head_dim):
    heads = q.out_features // head_dim
    if list(keep) != sorted(set(keep)) or any(not 0 <= h < heads for h in keep):
        raise ValueError(keep)
    features = [h * head_dim + i for h in keep for i in range(head_dim)]
    made = []
    for old in (q, k, v):
        new = nn.Linear(q.in_features, len(features), bias=q.bias is not None, dtype=q.weight.dtype)
        with torch.no_grad():
            new.weight.copy_(old.weight[features])
            if new.bias is not None:
                new.bias.copy_(old.bias[features])
        made.append(new)
    new = nn.Linear(len(features), out.out_features, bias=out.bias is not None, dtype=out.weight.dtype)
    with torch.no_grad():
        new.weight.copy_(out.weight[:, features])
        if new.bias is not None:
            new.bias.copy_(out.bias)
    return *made, new
