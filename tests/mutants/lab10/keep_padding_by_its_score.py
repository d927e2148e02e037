# loses 10.2 · message: "stays while real tokens went"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.clone()
    rank[:, 0] = torch.inf
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
