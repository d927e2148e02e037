# loses 10.1 · message: "summed over heads and queries"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    return torch.einsum("bmji,bj->bi", attn, real) * real
