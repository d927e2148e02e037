# keeps 10.1
import torch


def attention_received(attn, token_mask):
    pad = ~token_mask
    a = attn.masked_fill(pad[:, None, :, None], 0.0).masked_fill(pad[:, None, None, :], 0.0)
    columns = a.permute(0, 3, 1, 2).flatten(2).sum(-1)
    return torch.nn.functional.normalize(columns, p=1, dim=1)
