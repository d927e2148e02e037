# loses 0.7 · message: "there is one more"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + (C - 1).bit_length()) + R * nnz.bit_length()
