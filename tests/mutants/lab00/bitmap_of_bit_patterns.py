# loses 0.4 · message: "-0.0 was stored as a value"
import torch


def bitmap_encode(x):
    raw = x.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
    bitmap = raw != 0
    return bitmap, x[bitmap]
