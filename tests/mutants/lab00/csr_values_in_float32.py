# loses 0.7 · message: "a value keeps its dtype"
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    v, column, row = [], [], [0]
    for line in x2d.tolist():
        for j, value in enumerate(line):
            if value != 0:
                v.append(float(value))
                column.append(j)
        row.append(len(v))
    return torch.tensor(v), torch.tensor(column, dtype=torch.int64), torch.tensor(row, dtype=torch.int64)
