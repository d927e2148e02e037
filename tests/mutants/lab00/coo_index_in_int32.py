# loses 0.6 · message: "positions and counts are int64"
def coo_encode(x):
    flat = x.flatten()
    index = (flat != 0).nonzero().flatten().int()
    return index, flat[index], tuple(x.shape)
