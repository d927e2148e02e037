# loses 10.2 · message: "the first k"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    index = torch.arange(min(k, scores.shape[1])).repeat(len(scores), 1)
    return hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2])), token_mask.gather(1, index), index
