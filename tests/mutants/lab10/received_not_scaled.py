# loses 10.1 · message: "and the rest was not scaled"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.mean(1) * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)
    return s * real
