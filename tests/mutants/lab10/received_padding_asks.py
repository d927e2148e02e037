# loses 10.1 · message: "queries of padding were counted"
import torch


def attention_received(attn, token_mask):
    s = attn.mean(dim=(1, 2)) * token_mask
    return s / s.sum(1, keepdim=True)
