# loses 0.6 · message: "all zeros, holds float32"
import torch


def coo_encode(x):
    flat = x.flatten()
    index = torch.tensor([i for i, v in enumerate(flat.tolist()) if v != 0])
    return index, flat[index.long()], tuple(x.shape)
