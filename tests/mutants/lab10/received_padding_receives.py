# loses 10.1 · message: "padding has a score"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.mean(1) * real[:, :, None]).sum(1)
    return s / s.sum(1, keepdim=True)
