# loses 0.7 · message: "-0.0 was stored as a value"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    raw = x2d.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x2d.element_size()])
    rows, columns = raw.nonzero(as_tuple=True)
    per_row = (raw != 0).sum(1)
    return x2d[rows, columns], columns, torch.cat([per_row.new_zeros(1), per_row.cumsum(0)])
