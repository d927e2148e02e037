# loses 10.1 · message: "each query was scaled"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    a = attn.mean(1) * real[:, None, :]
    a = a / a.sum(2, keepdim=True)  # a row among the real tokens
    return (a * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)
