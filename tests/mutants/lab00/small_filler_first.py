# loses 0.5 · message: "fillers ("
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    full = 2**run_bits
    runs, values, zeros = [], [], 0

    def write(zeros, value):
        if zeros >= full:
            runs.append(zeros % full)
            values.append(0)
            rest = zeros - zeros % full - 1
            for _ in range(rest // full):
                runs.append(full - 1)
                values.append(0)
            zeros = rest % full
        runs.append(zeros)
        values.append(value)

    for v in x.flatten().tolist():
        if v == 0:
            zeros += 1
        else:
            write(zeros, v)
            zeros = 0
    if zeros:
        write(zeros - 1, 0)
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
