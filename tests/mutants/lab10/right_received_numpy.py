# keeps 10.1
import numpy as np
import torch


def attention_received(attn, token_mask):
    a, m = attn.double().numpy(), token_mask.numpy()
    seen = np.where(m[:, None, :, None], a, np.nan)
    mean = np.nanmean(seen, axis=(1, 2)) * m
    return torch.from_numpy(mean / mean.sum(axis=1, keepdims=True)).to(attn.dtype)
