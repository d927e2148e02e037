# loses 0.7 · message: "NaN was lost"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    kept = (x2d > 0) | (x2d < 0)
    rows, columns = kept.nonzero(as_tuple=True)
    return x2d[rows, columns], columns, torch.cat([rows.new_zeros(1), kept.sum(1).cumsum(0)])
