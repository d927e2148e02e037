# loses 0.6 · message: "places in memory"
def coo_encode(x):
    places = (x != 0).nonzero()  # (nnz, ndim)
    return (places * torch.tensor(x.stride(), dtype=torch.int64)).sum(1), x[x != 0], tuple(x.shape)
