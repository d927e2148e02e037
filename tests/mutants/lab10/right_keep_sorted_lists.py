# keeps 10.2
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError(k)
    B, L, _ = hidden.shape
    index = []
    for b in range(B):
        key = lambda i: (i != 0, not token_mask[b, i].item(), -scores[b, i].item() if token_mask[b, i] else 0.0, i)
        index.append(sorted(sorted(range(L), key=key)[:k]))
    index = torch.tensor(index)
    rows = torch.stack([hidden[b, index[b]] for b in range(B)])
    return rows, torch.stack([token_mask[b, index[b]] for b in range(B)]), index
