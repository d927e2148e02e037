# loses 10.1 · message: "should have shape"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.mean(1) * real[:, :, None]).sum(1, keepdim=True) * real[:, None]
    return s / s.sum(2, keepdim=True)
