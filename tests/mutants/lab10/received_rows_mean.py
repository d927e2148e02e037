# loses 10.1 · message: "a row says where a token looks"
import torch


def attention_received(attn, token_mask):
    return attn.mean((1, 3)) * token_mask
