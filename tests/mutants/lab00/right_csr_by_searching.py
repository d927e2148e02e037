# keeps 0.7
import torch


def csr_encode(x2d):
    if len(x2d.shape) != 2:
        raise ValueError("a matrix")
    R, C = x2d.shape
    flat = x2d.reshape(-1)
    index = torch.nonzero(flat).squeeze(1)
    return flat[index], index % C, torch.searchsorted(index, torch.arange(R + 1) * C)


def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    R, C = shape
    ok = ROW_INDEX.numel() == R + 1 and int(ROW_INDEX[-1]) == v.numel() == COL_INDEX.numel()
    if not ok or (v.numel() and int(COL_INDEX.max()) >= C):
        raise ValueError("the arrays do not fit")
    rows = torch.searchsorted(ROW_INDEX, torch.arange(v.numel()), right=True) - 1
    return torch.zeros(R * C, dtype=v.dtype).scatter(0, rows * C + COL_INDEX, v).view(R, C)


def csr_bits(x2d, n=32):
    v, column, row = csr_encode(x2d)
    return len(v) * (n + (x2d.shape[1] - 1).bit_length()) + len(row) * len(v).bit_length()
