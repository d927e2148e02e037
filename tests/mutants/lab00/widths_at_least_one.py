# loses 0.7 · message: "where there is only one column"
import math


def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + max(1, math.ceil(math.log2(C)))) + (R + 1) * max(1, math.ceil(math.log2(nnz + 1)))
