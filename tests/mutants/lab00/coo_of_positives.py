# loses 0.6 · message: "negative numbers are missing"
def coo_encode(x):
    flat = x.flatten()
    index = (flat > 0).nonzero().flatten()
    return index, flat[index], tuple(x.shape)
