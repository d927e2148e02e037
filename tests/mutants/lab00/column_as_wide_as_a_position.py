# loses 0.7 · message: "a position in the whole matrix"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    nnz = int((x2d != 0).sum())
    return nnz * (n + (x2d.numel() - 1).bit_length()) + (len(x2d) + 1) * nnz.bit_length()
