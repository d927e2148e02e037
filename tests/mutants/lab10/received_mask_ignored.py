# loses 10.1 · message: "padding has a score"
import torch


def attention_received(attn, token_mask):
    return attn.mean(dim=(1, 2))
