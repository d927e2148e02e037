# loses 10.1 · message: "divided by all L"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn * real[:, None, :, None]).mean(dim=(1, 2))  # mean over all L
    return s * real
