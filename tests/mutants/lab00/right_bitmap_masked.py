# keeps 0.4
import torch


def bitmap_encode(x):
    bitmap = torch.logical_not(x == 0)
    return bitmap, torch.masked_select(x, bitmap)


def bitmap_decode(bitmap, values):
    if torch.count_nonzero(bitmap) != values.shape[0]:
        raise ValueError("counts differ")
    return torch.zeros(bitmap.shape, dtype=values.dtype).masked_scatter(bitmap, values)


def bitmap_bits(x, n=32):
    _, values = bitmap_encode(x)
    return n * values.shape[0] + x.numel()
