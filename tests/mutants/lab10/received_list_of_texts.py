# loses 10.1 · message: "should be a torch tensor"
import torch


def attention_received(attn, token_mask):
    out = []
    for a, m in zip(attn, token_mask):
        s = a[:, m].mean((0, 1)) * m
        out.append(s / s.sum())
    return out
