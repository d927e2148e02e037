# keeps 7.6
import torch
from torch import nn


def slice_heads(q, k, v, out, keep, head_dim):
    heads = q.out_features // head_dim
    if list(keep) != sorted(set(keep)) or any(not 0 <= h < heads for h in keep):
        raise ValueError(f"keep is {keep}")
    features = [h * head_dim + i for h in keep for i in range(head_dim)]

    def made(rows, columns, bias):
        weight = rows[:, columns] if columns is not None else rows
        new = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
        new.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
        return new

    parts = [made(w.weight[features], None, None if w.bias is None else w.bias[features]) for w in (q, k, v)]
    return *parts, made(out.weight, features, out.bias)
