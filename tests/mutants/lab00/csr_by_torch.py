# loses 0.7 · message: "asks you to write this yourself"
def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    sparse = x2d.to_sparse_csr()
    return sparse.values(), sparse.col_indices(), sparse.crow_indices()
