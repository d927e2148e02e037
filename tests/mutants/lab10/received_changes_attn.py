# loses 10.1 · message: "your function changed the attention"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    attn *= real[:, None, :, None]
    attn *= real[:, None, None, :]
    s = attn.mean((1, 2))
    return s / s.sum(1, keepdim=True)
