# loses 0.5 · message: "the runs are one too large"
import torch


def rle_encode(x, run_bits=2):
    require(run_bits >= 1, "at least 1 bit")
    flat = x.flatten()
    index = (flat != 0).nonzero().flatten()
    runs = index.diff(prepend=torch.tensor([-1]))
    return runs, flat[index], tuple(x.shape)
