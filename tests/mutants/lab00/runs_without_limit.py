# loses 0.5 · message: "stands in one pair"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    runs, values, zeros = [], [], 0
    for v in x.flatten().tolist():
        if v == 0:
            zeros += 1
        else:
            runs.append(zeros)
            values.append(v)
            zeros = 0
    if zeros:
        runs.append(zeros - 1)
        values.append(0)
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
