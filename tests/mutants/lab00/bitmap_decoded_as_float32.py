# loses 0.4 · message: "Whose dtype should they have"
import torch


def bitmap_decode(bitmap, values):
    require(int(bitmap.sum()) == len(values), "as many values as True bits")
    x = torch.zeros(bitmap.shape)
    x[bitmap] = values.float()
    return x
