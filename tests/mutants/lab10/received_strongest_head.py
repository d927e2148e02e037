# loses 10.1 · message: "the strongest head"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.amax(1) * real[:, :, None]).sum(1) * real
    return s / s.sum(1, keepdim=True)
