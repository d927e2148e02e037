# loses 0.5 · message: "in a pair the zeros come first"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    runs, values = [], []
    for v in x.flatten().tolist():
        if v != 0:
            values.append(v)
            runs.append(0)
        elif runs and runs[-1] < 2**run_bits - 1:
            runs[-1] += 1
        else:
            runs.append(0)
            values.append(0)
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
