# loses 10.2 · message: "where k is larger than L"
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k < 1:
        raise ValueError("k is at least 1")
    rank = scores.masked_fill(~token_mask, -torch.inf)
    rank[:, 0] = torch.inf
    index = rank.argsort(dim=1, descending=True, stable=True)[:, :k].sort(dim=1).values
    more = k - index.shape[1]
    rows = hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2]))
    mask = token_mask.gather(1, index)
    if more > 0:
        rows = torch.cat([rows, rows.new_zeros(len(rows), more, rows.shape[2])], 1)
        mask = torch.cat([mask, mask.new_zeros(len(mask), more)], 1)
        index = torch.cat([index, index.new_zeros(len(index), more)], 1)
    return rows, mask, index
