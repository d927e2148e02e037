# loses 10.1 · message: "the query that asks most"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.mean(1) * real[:, :, None]).amax(1) * real
    return s / s.sum(1, keepdim=True)
