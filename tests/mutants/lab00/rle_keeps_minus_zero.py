# loses 0.5 · message: "came back from rle_decode(*rle_encode(x)) as -0.0"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    longest = 2**run_bits - 1
    flat = x.flatten()
    runs, stops, zeros = [], [], 0
    for i in range(len(flat)):
        if flat[i] == 0 and zeros < longest and i < len(flat) - 1:
            zeros += 1
        else:
            runs.append(zeros)
            stops.append(i)
            zeros = 0
    return torch.tensor(runs, dtype=torch.long), flat[torch.tensor(stops, dtype=torch.long)], tuple(x.shape)
