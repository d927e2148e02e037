# loses 0.5 · message: "elements came back"
import math

import torch


def rle_decode(runs, values, shape):
    row = []
    for r, v in zip(runs.tolist(), values.tolist()):
        row += [0] * r
        if v != 0:
            row.append(v)
    x = torch.tensor(row, dtype=values.dtype)
    return x.view(shape) if len(row) == math.prod(shape) else x
