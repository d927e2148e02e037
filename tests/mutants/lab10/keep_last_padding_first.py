# loses 10.2 · message: "first padding first"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = torch.where(token_mask, scores.double(), torch.arange(scores.shape[1]) - 1e6)
    rank[:, 0] = torch.inf
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
