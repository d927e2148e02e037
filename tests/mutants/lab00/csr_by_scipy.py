# loses 0.7 · message: "asks you to write this yourself"
import scipy.sparse
import torch


def csr_encode(x2d):
    require(x2d.ndim == 2, "a matrix")
    sparse = scipy.sparse.csr_matrix(x2d.numpy())
    return (
        torch.from_numpy(sparse.data),
        torch.from_numpy(sparse.indices).long(),
        torch.from_numpy(sparse.indptr).long(),
    )
