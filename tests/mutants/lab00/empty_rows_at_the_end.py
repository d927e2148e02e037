# loses 0.7 · message: "empty ones too"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    rows, columns = (x2d != 0).nonzero(as_tuple=True)
    counts = torch.bincount(rows)
    return x2d[rows, columns], columns, torch.cat([counts.new_zeros(1), counts.cumsum(0)])
