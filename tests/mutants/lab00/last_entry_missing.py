# loses 0.7 · message: "the last entry is missing"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    v, column, row = [], [], []
    for line in x2d.tolist():
        row.append(len(v))
        for j, value in enumerate(line):
            if value != 0:
                v.append(value)
                column.append(j)
    return (
        torch.tensor(v, dtype=x2d.dtype),
        torch.tensor(column, dtype=torch.int64),
        torch.tensor(row, dtype=torch.int64),
    )
