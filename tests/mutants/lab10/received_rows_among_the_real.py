# loses 10.1 · message: "a row says where a token looks"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    a = attn * real[:, None, None, :]
    s = a.mean(dim=(1, 3)) * real
    return s / s.sum(1, keepdim=True)
