# loses 10.2 · message: "one long list"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.masked_fill(~token_mask, -torch.inf)
    rank[:, 0] = torch.inf
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    L, E = hidden.shape[1:]
    flat = index + L * torch.arange(len(index))[:, None]
    return hidden.reshape(-1, E)[flat], token_mask.reshape(-1)[flat], flat
