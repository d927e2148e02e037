# loses 0.6 · message: "-0.0 was stored as a value"
import torch


def coo_encode(x):
    flat = x.flatten()
    raw = flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
    index = raw.nonzero().flatten()
    return index, flat[index], tuple(x.shape)
