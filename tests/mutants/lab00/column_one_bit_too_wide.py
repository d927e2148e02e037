# loses 0.7 · message: "a column has one bit too many: the largest is C - 1"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + C.bit_length()) + (R + 1) * nnz.bit_length()
