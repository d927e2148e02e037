# loses 10.2 · message: "they leave"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.masked_fill(~token_mask, -torch.inf)
    rank[:, 0] = torch.inf
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    stay = torch.zeros_like(token_mask).scatter(1, index, True)
    return hidden * stay[:, :, None], token_mask & stay, index
