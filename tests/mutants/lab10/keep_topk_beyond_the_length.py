# loses 10.2 · message: "where k is larger than L"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.double().masked_fill(~token_mask, -1e6)
    rank[:, 0] = 1e6
    rank = rank - 1e-9 * torch.arange(rank.shape[1])  # of equal ones the first
    index = rank.topk(k, dim=1).indices.sort(dim=1).values
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
