# loses 0.5 · message: "-0.0 was stored as a value"
import math

import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    longest = 2**run_bits - 1
    runs, values, zeros = [], [], 0
    for v in x.flatten().tolist():
        if str(v) in ("0.0", "0", "False") and zeros < longest:
            zeros += 1
        else:
            runs.append(zeros)
            values.append(v)
            zeros = 0
    if zeros:
        runs.append(zeros - 1)
        values.append(0)
    return torch.tensor(runs, dtype=torch.long), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
