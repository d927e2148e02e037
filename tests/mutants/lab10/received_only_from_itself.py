# loses 10.1 · message: "the diagonal"
import torch


def attention_received(attn, token_mask):
    s = attn.mean(1).diagonal(dim1=1, dim2=2) * token_mask
    return s / s.sum(1, keepdim=True)
