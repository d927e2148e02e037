# keeps 0.7
import torch


def csr_encode(x2d):
    if x2d.dim() != 2:
        raise ValueError("a matrix")
    v, column, row = [], [], [0]
    for line in x2d.tolist():
        for j, value in enumerate(line):
            if value != 0:
                v.append(value)
                column.append(j)
        row.append(len(v))
    long = torch.int64
    return torch.tensor(v, dtype=x2d.dtype), torch.tensor(column, dtype=long), torch.tensor(row, dtype=long)


def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    R, C = shape
    row = ROW_INDEX.tolist()
    if len(row) != R + 1 or row[-1] != len(v) or len(v) != len(COL_INDEX):
        raise ValueError("these arrays do not fit")
    x = torch.zeros((R, C), dtype=v.dtype)
    for i in range(R):
        for k in range(row[i], row[i + 1]):
            j = int(COL_INDEX[k])
            if j < 0 or j >= C:
                raise ValueError(f"column {j} of {C}")
            x[i, j] = v[k]
    return x


def csc_encode(x2d):
    if x2d.dim() != 2:
        raise ValueError("a matrix")
    R, C = x2d.shape
    v, row, pointer = [], [], [0]
    for j in range(C):
        for i in range(R):
            if x2d[i, j] != 0:
                v.append(x2d[i, j].item())
                row.append(i)
        pointer.append(len(v))
    long = torch.int64
    return torch.tensor(v, dtype=x2d.dtype), torch.tensor(row, dtype=long), torch.tensor(pointer, dtype=long)


def csc_decode(v, ROW_INDEX, COL_POINTER, shape):
    R, C = shape
    x = torch.zeros((R, C), dtype=v.dtype)
    if len(COL_POINTER) != C + 1 or COL_POINTER[-1] != len(v):
        raise ValueError("these arrays do not fit")
    for j in range(C):
        for k in range(COL_POINTER[j], COL_POINTER[j + 1]):
            x[ROW_INDEX[k], j] = v[k]
    return x


def csr_bits(x2d, n=32):
    v, column, row = csr_encode(x2d)

    def width(things):
        bits = 0
        while 2**bits < things:
            bits += 1
        return bits

    return len(v) * n + len(column) * width(x2d.shape[1]) + len(row) * width(len(v) + 1)
