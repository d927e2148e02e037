# keeps 0.6
import torch


def coo_encode(x):
    index, values = [], []
    for i, v in enumerate(x.flatten().tolist()):
        if v != 0:
            index.append(i)
            values.append(v)
    return torch.tensor(index, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)


def coo_decode(index, values, shape):
    size = 1
    for n in shape:
        size *= n
    index = index.tolist()
    if len(index) != len(values):
        raise ValueError("one value per position")
    row = torch.zeros(size, dtype=values.dtype)
    for i, v in zip(index, values):
        if not 0 <= i < size:
            raise ValueError(f"{i} is outside")
        row[i] = v
    return row.reshape(shape)


def coo_bits(x, n=32):
    width = 0
    while 2**width < x.numel():
        width += 1
    return sum(n + width for v in x.flatten().tolist() if v != 0)
