# loses 0.7 · message: "a row was counted for every value"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    return int((x2d != 0).sum()) * (n + (R - 1).bit_length() + (C - 1).bit_length())
