# keeps 10.2
import numpy as np
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k")
    L = scores.shape[1]
    index = np.zeros((len(scores), min(k, L)), dtype=np.int64)
    for b in range(len(scores)):
        s, m = scores[b].numpy(), token_mask[b].numpy()
        s = np.where(m, s, 0)
        order = np.lexsort((np.arange(L), -s, ~m, np.arange(L) != 0))
        index[b] = np.sort(order[:k])
    index = torch.from_numpy(index)
    return torch.take_along_dim(hidden, index[..., None], 1), torch.take_along_dim(token_mask, index, 1), index
