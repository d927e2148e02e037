# loses 0.5 · message: "rle_decode"
import math

import torch


def rle_decode(runs, values, shape):
    x = torch.zeros(math.prod(shape), dtype=values.dtype)
    x[runs.cumsum(0)] = values  # the runs add up to the places
    return x.view(shape)
