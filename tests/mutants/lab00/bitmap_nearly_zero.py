# loses 0.4 · message: "1e-30 was lost"
import torch


def bitmap_encode(x):
    bitmap = ~torch.isclose(x, torch.zeros_like(x)) if x.is_floating_point() else x != 0
    return bitmap, x[bitmap]
