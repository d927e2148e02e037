# keeps 0.5
from itertools import groupby

import torch


def rle_encode(x, run_bits=2):
    if not run_bits > 0:
        raise ValueError("run_bits")
    full = 1 << run_bits
    runs, values, waiting = [], [], 0
    for is_zero, group in groupby(x.reshape(-1).tolist(), key=lambda v: v == 0):
        if is_zero:
            fillers, waiting = divmod(len(list(group)), full)
            runs += [full - 1] * fillers
            values += [0] * fillers
        else:
            for v in group:
                runs.append(waiting)
                values.append(v)
                waiting = 0
    if waiting:
        runs.append(waiting - 1)
        values.append(0)
    return (
        torch.LongTensor(runs),
        torch.tensor(values).to(x.dtype) if not values else torch.tensor(values, dtype=x.dtype),
        x.shape,
    )


def rle_decode(runs, values, shape):
    parts = []
    for r, v in zip(runs, values):
        parts += [values.new_zeros(int(r)), v[None]]
    x = torch.cat(parts) if parts else values.new_zeros(0)
    try:
        return x.reshape(tuple(shape))
    except RuntimeError:
        raise ValueError("the pairs do not fill the shape")
