# loses 10.2 · message: "should have shape"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.masked_fill(~token_mask, -torch.inf)
    rank[:, 0] = torch.inf
    k = min(k, int(token_mask.sum(1).max()))
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
