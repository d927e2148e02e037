# loses 0.4 · message: "bitmap_decode gave a bool tensor"
import torch


def bitmap_decode(bitmap, values):
    require(int(bitmap.sum()) == len(values), "as many values as True bits")
    x = torch.zeros_like(bitmap)
    x[bitmap] = values.bool()
    return x
