# loses 10.1 · message: "what a token takes from itself"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    others = 1 - torch.eye(attn.shape[-1], dtype=attn.dtype)
    s = (attn.mean(1) * others * real[:, :, None]).sum(1) * real
    return s / s.sum(1, keepdim=True)
