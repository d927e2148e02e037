# keeps 10.2
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError(f"k = {k}")
    chosen = []
    for b in range(len(hidden)):
        left = [i for i in range(1, hidden.shape[1]) if token_mask[b, i]]
        pad = [i for i in range(hidden.shape[1]) if not token_mask[b, i]]
        mine = [0]
        while len(mine) < min(k, hidden.shape[1]):
            if left:
                best = max(left, key=lambda i: (float(scores[b, i]), -i))
                left.remove(best)
            else:
                best = pad.pop(0)
            mine.append(best)
        chosen.append(sorted(mine))
    index = torch.tensor(chosen, dtype=torch.int64)
    batch = torch.arange(len(hidden))[:, None]
    return hidden[batch, index], token_mask[batch, index], index
