# keeps 10.2
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k counts [CLS]")
    words, real = scores[:, 1:], token_mask[:, 1:]
    order = words.masked_fill(~real, float("-inf")).sort(dim=1, descending=True, stable=True).indices
    order = order[:, : k - 1].sort(dim=1).values + 1
    index = torch.nn.functional.pad(order, (1, 0))
    rows = torch.gather(hidden, 1, index.unsqueeze(-1).repeat(1, 1, hidden.size(-1)))
    return rows, torch.gather(token_mask, 1, index), index
