# loses 10.1 · message: "summed over the queries"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    return (attn.mean(1) * real[:, :, None]).sum(1) * real
