# loses 0.7 · message: "positions and counts are int64"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    rows, columns = (x2d != 0).nonzero(as_tuple=True)
    row_index = torch.zeros(len(x2d) + 1, dtype=torch.int32)
    row_index[1:] = (x2d != 0).sum(1).cumsum(0)
    return x2d[rows, columns], columns, row_index
