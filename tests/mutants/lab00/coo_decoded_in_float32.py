# loses 0.6 · message: "Whose dtype should they have"
import math

import torch


def coo_decode(index, values, shape):
    require(len(index) == len(values), "one value per position")
    require(bool(((index >= 0) & (index < math.prod(shape))).all()), "outside")
    x = torch.zeros(shape)
    x.view(-1)[index] = values.float()
    return x
