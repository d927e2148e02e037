# loses 10.1 · message: "only the row of [CLS]"
import torch


def attention_received(attn, token_mask):
    s = attn.mean(1)[:, 0] * token_mask
    return s / s.sum(1, keepdim=True)
