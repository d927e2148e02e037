# loses 10.1 · message: "the padding of the first text"
import torch


def attention_received(attn, token_mask):
    real = token_mask[0].to(attn.dtype)
    s = (attn.mean(1) * real[:, None]).sum(1) * real
    return s / s.sum(1, keepdim=True)
