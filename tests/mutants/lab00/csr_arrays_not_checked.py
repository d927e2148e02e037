# loses 0.7 · message: "should raise a ValueError"
def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    R, C = shape
    x = v.new_zeros(R, C)
    for i in range(R):
        for k in range(int(ROW_INDEX[i]), int(ROW_INDEX[i + 1])):
            x[i, COL_INDEX[k]] = v[k]
    return x
