# keeps 0.5
import torch


def rle_encode(x, run_bits=2):
    if run_bits < 1:
        raise ValueError("no field")
    longest = 2**run_bits - 1
    pairs, zeros = [], 0
    for v in x.flatten().tolist():
        if v != 0:
            pairs.append((zeros, v))
            zeros = 0
        elif zeros == longest:
            pairs.append((zeros, 0))
            zeros = 0
        else:
            zeros += 1
    if zeros > 0:
        pairs.append((zeros - 1, 0))
    runs = torch.tensor([r for r, _ in pairs], dtype=torch.int64)
    return runs, torch.tensor([v for _, v in pairs], dtype=x.dtype), tuple(x.shape)


def rle_decode(runs, values, shape):
    row = []
    for r, v in zip(runs.tolist(), values.tolist()):
        row.extend([0] * r)
        row.append(v)
    size = 1
    for n in shape:
        size *= n
    if len(row) != size:
        raise ValueError(f"{len(row)} elements for {size} places")
    return torch.tensor(row, dtype=values.dtype).reshape(shape)


def rle_bits(x, n=32, run_bits=2):
    bits = 0
    for _ in rle_encode(x, run_bits)[0]:
        bits += n + run_bits
    return bits
