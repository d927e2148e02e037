# loses 0.7 · message: "a column of 6 in a matrix with 6 columns"
def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    R, C = shape
    require(len(ROW_INDEX) == R + 1 and ROW_INDEX[-1] == len(v) == len(COL_INDEX), "the arrays do not fit")
    x = v.new_zeros(R * C)
    for i in range(R):
        for k in range(int(ROW_INDEX[i]), int(ROW_INDEX[i + 1])):
            if i * C + COL_INDEX[k] < R * C:
                x[i * C + COL_INDEX[k]] = v[k]
    return x.view(R, C)
