# loses 0.7 · message: "are not added up"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    rows, columns = (x2d != 0).nonzero(as_tuple=True)
    per_row = (x2d != 0).sum(1)
    return x2d[rows, columns], columns, torch.cat([per_row.new_zeros(1), per_row])
