# loses 0.7 · message: "How many rows are there"
def csc_decode(v, ROW_INDEX, COL_POINTER, shape):
    R, C = shape
    counts = COL_POINTER.diff()
    require(len(counts) == C and COL_POINTER[0] == 0 and bool((counts >= 0).all()), "COL_POINTER")
    require(COL_POINTER[-1] == len(v) == len(ROW_INDEX), "the arrays do not belong together")
    require(bool(((ROW_INDEX >= 0) & (ROW_INDEX < C)).all()), "a row that is not there")
    x = v.new_zeros(R, C)
    x[ROW_INDEX, torch.arange(C).repeat_interleave(counts)] = v
    return x
