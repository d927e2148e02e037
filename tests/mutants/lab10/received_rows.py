# loses 10.1 · message: "a row says where a token looks"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = attn.mean(1).sum(2) * real
    return s / s.sum(1, keepdim=True)
