# loses 0.7 · message: "here they go column by column"
import torch


def csc_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    _, rows = (x2d.T != 0).nonzero(as_tuple=True)
    per_column = (x2d != 0).sum(0)
    return x2d[x2d != 0], rows, torch.cat([per_column.new_zeros(1), per_column.cumsum(0)])
