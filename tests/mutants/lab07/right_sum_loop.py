# keeps 7.1
import math

import torch


def attention_as_sum(x, Wq, Wk, Wv, Wo, heads):
    B, L, E = x.shape
    d, rest = divmod(E, heads)
    if rest:
        raise ValueError("heads must divide E")
    parts = torch.zeros(heads, B, L, E, dtype=x.dtype)
    for h in range(heads):
        mine = slice(h * d, (h + 1) * d)
        for b in range(B):
            q, k, v = x[b] @ Wq[mine].T, x[b] @ Wk[mine].T, x[b] @ Wv[mine].T
            scores = (q @ k.T / math.sqrt(d)).exp()
            parts[h, b] = scores / scores.sum(1, keepdim=True) @ v @ Wo[:, mine].T
    return parts
