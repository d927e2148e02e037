# loses 10.1 · message: "over the whole batch"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.mean(1) * real[:, :, None]).sum(1) * real
    return s / s.sum()
