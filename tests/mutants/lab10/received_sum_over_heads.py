# loses 10.1 · message: "summed over the heads"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.sum(1) * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)
    return s * real
