# loses 0.5 · message: "your function changed"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    full = 2**run_bits
    shape, x = tuple(x.shape), x.view(-1)
    runs, values, last = [], [], -1
    while (x != 0).any():
        i = int((x != 0).nonzero()[0])
        gap = i - last - 1
        runs += [full - 1] * (gap // full) + [gap % full]
        values += [0] * (gap // full) + [x[i].item()]
        x[i] = 0  # done
        last = i
    tail = len(x) - last - 1
    if tail:
        runs += [full - 1] * ((tail - 1) // full) + [(tail - 1) % full]
        values += [0] * ((tail - 1) // full + 1)
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), shape
