# loses 0.7 · message: "should raise a ValueError"
import torch


def csr_encode(x2d):
    x2d = x2d.reshape(len(x2d), -1)
    rows, columns = (x2d != 0).nonzero(as_tuple=True)
    per_row = (x2d != 0).sum(1)
    return x2d[rows, columns], columns, torch.cat([per_row.new_zeros(1), per_row.cumsum(0)])
