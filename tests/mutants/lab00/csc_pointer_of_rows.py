# loses 0.7 · message: "COL_POINTER"
import torch


def csc_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    _, rows = (x2d.T != 0).nonzero(as_tuple=True)
    per_row = (x2d != 0).sum(1)
    return x2d.T[x2d.T != 0], rows, torch.cat([per_row.new_zeros(1), per_row.cumsum(0)])
