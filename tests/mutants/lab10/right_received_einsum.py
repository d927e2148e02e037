# keeps 10.1
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn)
    total = torch.einsum("bmji,bj,bi->bi", attn, real, real)
    return total / total.sum(dim=-1, keepdim=True)
