# loses 0.7 · message: "Whose dtype should they have"
import torch


def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    R, C = shape
    require(len(ROW_INDEX) == R + 1 and ROW_INDEX[-1] == len(v) == len(COL_INDEX), "the arrays do not fit")
    require(bool(((COL_INDEX >= 0) & (COL_INDEX < C)).all()), "a column lies outside")
    x = torch.zeros(R, C)
    for i in range(R):
        for k in range(int(ROW_INDEX[i]), int(ROW_INDEX[i + 1])):
            x[i, COL_INDEX[k]] = v[k]
    return x
