# loses 10.2 · message: "[CLS] took the place"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.masked_fill(~token_mask, -torch.inf)
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    index[:, 0] = 0
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
