# keeps 0.4
import torch


def bitmap_encode(x):
    marks, values = [], []
    for v in x.flatten().tolist():
        if v == 0:
            marks.append(False)
        else:
            marks.append(True)
            values.append(v)
    return torch.tensor(marks, dtype=torch.bool).reshape(x.shape), torch.tensor(values, dtype=x.dtype)


def bitmap_decode(bitmap, values):
    marks = bitmap.flatten().tolist()
    if sum(marks) != len(values):
        raise ValueError("as many values as marks")
    x = torch.zeros(len(marks), dtype=values.dtype)
    i = 0
    for place, marked in enumerate(marks):
        if marked:
            x[place] = values[i]
            i += 1
    return x.reshape(bitmap.shape)


def bitmap_bits(x, n=32):
    bits = 0
    for v in x.flatten().tolist():
        bits += 1 if v == 0 else n + 1
    return bits
