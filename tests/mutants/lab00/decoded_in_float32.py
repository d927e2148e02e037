# loses 0.5 · message: "Whose dtype should they have"
import math

import torch


def rle_decode(runs, values, shape):
    require(int((runs + 1).sum()) == math.prod(shape), "the pairs do not fill the shape")
    x = torch.zeros(math.prod(shape))
    place = -1
    for r, v in zip(runs.tolist(), values.tolist()):
        place += r + 1
        x[place] = v
    return x.view(shape)
