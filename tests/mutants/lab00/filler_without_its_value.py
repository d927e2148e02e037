# loses 0.5 · message: "takes a zero once more"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    longest = 2**run_bits - 1
    runs, values, zeros = [], [], 0
    for v in x.flatten().tolist():
        if v == 0:
            if zeros == longest:  # full: write it down and begin again with this zero
                runs.append(longest)
                values.append(0)
                zeros = 0
            zeros += 1
        else:
            runs.append(zeros)
            values.append(v)
            zeros = 0
    if zeros:
        runs.append(zeros - 1)
        values.append(0)
    return torch.tensor(runs, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
