# loses 0.7 · message: "ROW_INDEX were counted with n bits"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    return int((x2d != 0).sum()) * (n + (C - 1).bit_length()) + (R + 1) * n
