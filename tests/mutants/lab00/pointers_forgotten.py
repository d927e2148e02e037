# loses 0.7 · message: "ROW_INDEX is missing"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    return int((x2d != 0).sum()) * (n + (x2d.shape[1] - 1).bit_length())
