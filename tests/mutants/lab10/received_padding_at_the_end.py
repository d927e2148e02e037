# loses 10.1 · message: "padding may stand between"
import torch


def attention_received(attn, token_mask):
    out = torch.zeros(token_mask.shape, dtype=attn.dtype)
    for b, n in enumerate(token_mask.sum(1).tolist()):
        column = attn[b, :, :n, :n].mean((0, 1))
        out[b, :n] = column / column.sum()
    return out
