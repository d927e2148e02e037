# loses 0.5 · message: "the zeros at the end are lost"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    flat = x.flatten()
    full = 2**run_bits
    runs, values, last = [], [], -1
    for i in (flat != 0).nonzero().flatten().tolist():
        gap = i - last - 1
        runs += [full - 1] * (gap // full) + [gap % full]
        values += [0] * (gap // full) + [flat[i].item()]
        last = i
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
