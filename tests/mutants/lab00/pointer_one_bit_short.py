# loses 0.7 · message: "one bit short"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + (C - 1).bit_length()) + (R + 1) * max(nnz - 1, 0).bit_length()
