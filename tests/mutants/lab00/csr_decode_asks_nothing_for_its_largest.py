# loses 0.7 · message: "and how many values"
def csr_decode(v, COL_INDEX, ROW_INDEX, shape):
    R, C = shape
    counts = ROW_INDEX.diff()
    require(len(counts) == R and ROW_INDEX[0] == 0 and bool((counts >= 0).all()), "ROW_INDEX")
    require(ROW_INDEX[-1] == len(v) == len(COL_INDEX), "the arrays do not belong together")
    require(COL_INDEX.min() >= 0 and COL_INDEX.max() < C, "a column that is not there")
    x = v.new_zeros(R, C)
    x[torch.arange(R).repeat_interleave(counts), COL_INDEX] = v
    return x
