# loses 10.2 · message: "should be a torch tensor"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.masked_fill(~token_mask, -torch.inf)
    rank[:, 0] = torch.inf
    rows, masks, places = [], [], []
    for b in range(len(rank)):
        n = min(k, int(token_mask[b].sum()))
        i = rank[b].argsort(descending=True, stable=True)[:n].sort().values
        rows.append(hidden[b, i])
        masks.append(token_mask[b, i])
        places.append(i)
    return rows, masks, places
