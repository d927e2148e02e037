# loses 0.7 · message: "got the width of a column"
def csr_bits(x2d, n=32):
    require(x2d.ndim == 2, "a matrix")
    R, C = x2d.shape
    width = (C - 1).bit_length()
    return int((x2d != 0).sum()) * (n + width) + (R + 1) * width
