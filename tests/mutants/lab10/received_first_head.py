# loses 10.1 · message: "only the first head"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn[:, 0] * real[:, :, None]).sum(1) * real
    return s / s.sum(1, keepdim=True)
