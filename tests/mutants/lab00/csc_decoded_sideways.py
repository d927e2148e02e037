# loses 0.7 · message: "rows first"
def csc_decode(v, ROW_INDEX, COL_POINTER, shape):
    R, C = shape
    return csr_decode(v, ROW_INDEX, COL_POINTER, (C, R))
