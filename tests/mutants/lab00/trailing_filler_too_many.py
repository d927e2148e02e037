# loses 0.5 · message: "the pair (0, 0) at the end adds"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    longest = 2**run_bits - 1
    flat = x.flatten()
    runs, values, zeros = [], [], 0
    for v in flat.tolist():
        if v == 0 and zeros < longest:
            zeros += 1
        else:
            runs.append(zeros)
            values.append(v if v != 0 else 0)
            zeros = 0
    if len(flat) and flat[-1] == 0:  # a zero at the end: close the run
        runs.append(max(zeros - 1, 0))
        values.append(0)
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
