# keeps 10.3
import numpy as np
import torch


def progressive(lengths, layers, final):
    if not 0.0 < final <= 1.0:
        raise ValueError(final)
    share = np.exp(np.log(final) * np.linspace(0, 1, layers))
    table = np.ceil(np.outer(share, lengths.numpy()) - 1e-9)
    return torch.from_numpy(np.maximum(table, 1).astype(np.int64))
