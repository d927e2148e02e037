# loses 10.2 · message: "promises no order among equals"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    k = min(k, scores.shape[1])
    rank = scores.masked_fill(~token_mask, -1e30)
    rank = rank.where(token_mask, rank - 1e28 * torch.arange(rank.shape[1]))
    rank[:, 0] = torch.inf
    index = rank.topk(k, dim=1).indices.sort(dim=1).values
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
