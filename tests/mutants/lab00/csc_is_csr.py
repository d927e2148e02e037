# loses 0.7 · message: "the other one of CSR and CSC"
def csc_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    return csr_encode(x2d)
