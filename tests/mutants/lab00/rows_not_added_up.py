# loses 0.7 · message: "are not added up"
def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    rows, columns = (x2d != 0).nonzero(as_tuple=True)
    return x2d[rows, columns], columns, (x2d != 0).sum(1)
