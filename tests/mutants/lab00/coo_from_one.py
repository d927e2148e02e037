# loses 0.6 · message: "count from 1"
import torch


def coo_encode(x):
    index, values = [], []
    for i, v in enumerate(x.flatten().tolist(), start=1):
        if v != 0:
            index.append(i)
            values.append(v)
    return torch.tensor(index, dtype=torch.int64), torch.tensor(values, dtype=x.dtype), tuple(x.shape)
