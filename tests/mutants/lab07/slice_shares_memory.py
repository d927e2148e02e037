# loses 7.6 · message: "shares"
from torch import nn


def slice_heads(q, k, v, out, keep, head_dim):
    heads = q.out_features // head_dim
    if list(keep) != sorted(set(keep)) or any(not 0 <= h < heads for h in keep):
        raise ValueError(keep)
    features = [h * head_dim + i for h in keep for i in range(head_dim)]
    made = []
    for old in (q, k, v):
        new = nn.Linear(old.in_features, len(features), bias=old.bias is not None, dtype=q.weight.dtype)
        new.weight.data = old.weight.data[features]
        if old.bias is not None:
            new.bias.data = old.bias.data[features]
        made.append(new)
    new = nn.Linear(len(features), out.out_features, bias=False, dtype=out.weight.dtype)
    new.weight.data = out.weight.data[:, features]
    new.bias = out.bias
    return *made, new
