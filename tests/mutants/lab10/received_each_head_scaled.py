# loses 10.1 · message: "each head was scaled"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    by_head = torch.einsum("bmji,bj->bmi", attn, real) * real[:, None]  # (B, M, L)
    return (by_head / by_head.sum(2, keepdim=True)).mean(1)
