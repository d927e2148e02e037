# loses 10.1 · message: "a softmax"
import torch


def attention_received(attn, token_mask):
    real = token_mask.to(attn.dtype)
    s = (attn.mean(1) * real[:, :, None]).sum(1) / real.sum(1, keepdim=True)
    return s.masked_fill(~token_mask, -torch.inf).softmax(1)
